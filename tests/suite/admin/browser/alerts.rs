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
                page.until_text("#raised", |line| line == "An alert is raised: quiet. See why").await;
                page.press("#raised a", Key::Enter).await;
                page.until_text("h1", |title| title == "Alerts").await;
                page.until_text("#rules", |rules| rules.starts_with("quiet raised since")).await;
                page.write("#rule", "quiet").await;
                page.write("#seconds", "1 week").await;
                page.press("#silence button", Key::Enter).await;
                page.until_text("#rules", |rules| rules.contains("muted until")).await;
                page.press("#test button", Key::Enter).await;
                page.until_text("#history", |history| history.contains("message delivery works")).await;
                if script {
                    // The page updates when the watch has delivered the message.
                    page.until_text("#live", |live| live == "Live").await;
                    page.until_text("#history tr:nth-child(1) td:last-child", |told| {
                        told.starts_with("sent ")
                    })
                    .await;
                    assert_eq!(page.run(ACCESSIBILITY_SCRIPT).await, json!([]), "{name}");
                    assert_eq!(page.run(OVERFLOW_SCRIPT).await, 0, "{name} does not scroll sideways");
                }
                page.save_screenshot(name).await;
                page.press("#rules button", Key::Enter).await;
                page.until_text("#rules", |rules| !rules.contains("muted until")).await;
                page.open("/counter?counter=%2F&period=24h").await;
                page.until_text("#annotations", |told| told.contains("quiet raised: / has 0 hits, below 10"))
                    .await;
                page.save_screenshot(&format!("{name}-chart")).await;
            },
        )
        .await;
    }
}
