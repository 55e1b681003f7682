//! Alerts on the first page and on the alerts page.

use serde_json::json;
use tests::browser::{BrowserSettings, Key, browse_at};

use super::checks::{ACCESSIBILITY_SCRIPT, OVERFLOW_SCRIPT};
use crate::admin::alerts::serve_alerts;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alerts_can_be_managed_by_keyboard_with_or_without_javascript() {
    for (name, script, dark, width, height) in [
        ("alerts", true, false, 1180, 1000),
        ("alerts-dark", true, true, 1180, 1000),
        ("alerts-phone", true, false, 390, 844),
        ("alerts-plain", false, false, 1180, 1000),
    ] {
        let link = serve_alerts().await;
        browse_at(
            link,
            BrowserSettings { script, dark, width, height, ..BrowserSettings::default() },
            move |page| async move {
                page.open("?period=24h").await;
                page.until_text("#raised", |line| line == "An alert is firing: quiet. See why").await;
                page.press("#raised a", Key::Enter).await;
                page.until_text("h1", |title| title == "Alerts").await;
                let first = "#rules .rule";
                page.until_text(first, |rule| rule.starts_with("Firing quiet")).await;
                page.press("#rules .mute summary", Key::Enter).await;
                page.press("#rules .mute [value=\"28800\"]", Key::Enter).await;
                page.until_text(first, |rule| rule.starts_with("Firing Muted until")).await;
                page.press("#test button", Key::Enter).await;
                page.until_text("#history", |history| history.contains("message delivery works")).await;
                if script {
                    // The page updates when the watch has delivered the message.
                    page.until_text("#live", |live| live == "Live").await;
                    page.until_text("#history tbody tr:nth-child(1)", |row| row.contains("Delivered")).await;
                    assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]), "{name}");
                    assert_eq!(page.run(OVERFLOW_SCRIPT).await, 0, "{name} does not scroll sideways");
                    page.press("#rules details:not(.mute) summary", Key::Enter).await;
                    assert_eq!(page.run(MUTE_ANOTHER_RULE_SCRIPT).await, json!(null));
                    page.until_text("#rules", |rules| rules.matches("Muted until").count() == 2).await;
                    assert_eq!(
                        page.run("return document.querySelector('#rules details:not(.mute)').open").await,
                        json!(true)
                    );
                    assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]), "{name}");
                    // The browser is in Tokyo, and the site is in UTC.
                    page.press("#rules .mute summary", Key::Enter).await;
                    let chosen = page.run(CHOOSE_TIME_SCRIPT).await;
                    page.press("#rules .mute form:nth-child(2) button", Key::Enter).await;
                    let [day, time] = [0, 1].map(|part| chosen[part].as_str().expect("text"));
                    let until = format!("Firing Muted until {day}");
                    page.until_text(first, |rule| rule.starts_with(&until) && rule.contains(time)).await;
                }
                page.save_screenshot(name).await;
                page.press("#rules .unmute button", Key::Enter).await;
                page.until_text(first, |rule| rule.starts_with("Firing quiet")).await;
                page.press(".sentence:nth-of-type(3) button", Key::Enter).await;
                page.until_text("#rules", |rules| rules.contains("no requests for 10 min")).await;
                page.press("#rules .remove button", Key::Enter).await;
                page.until_text("#rules", |rules| !rules.contains("no requests for 10 min")).await;
                page.open("/counter?counter=%2F&period=24h").await;
                page.until_text("#annotations", |told| told.contains("quiet raised: / has 0 hits, below 10"))
                    .await;
                page.save_screenshot(&format!("{name}-chart")).await;
            },
        )
        .await;
    }
}

/// Mutes another rule without the page. The focus leaves the table, because a table with the focus is not updated.
const MUTE_ANOTHER_RULE_SCRIPT: &str = r##"
document.activeElement.blur();
fetch("/admin/stats/api/alerts/silence?rule=busy&seconds=3600", { method: "POST" });
"##;

/// Chooses a time in two hours, and returns the day and the time as the page shows them.
const CHOOSE_TIME_SCRIPT: &str = r##"
const at = new Date(Date.now() + 7200e3);
const local = new Date(at - at.getTimezoneOffset() * 60e3).toISOString();
document.querySelector("#rules [name=until]").value = local.slice(0, 16);
return [new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" }).format(at), local.slice(11, 16)];
"##;
