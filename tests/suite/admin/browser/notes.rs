//! Notes in the chart.

use tests::browser::{BrowserSettings, Key, browse};
use tests::until;

use super::LIMIT;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_note_can_be_added_and_removed_by_keyboard_with_or_without_javascript() {
    for script in [true, false] {
        browse(BrowserSettings { script, ..BrowserSettings::default() }, move |page| async move {
            page.open("?period=30h").await;
            match script {
                // The menu also opens the form.
                true => page.choose("#more", "a[href='#note-details']").await,
                false => page.press("#note-details summary", Key::Enter).await,
            }
            page.write("#note-text", &format!("Version <1.4>{}", char::from(Key::Enter))).await;
            page.until_text("#annotations ol", |told| told.contains("Version <1.4>")).await;
            assert!(page.address().await.ends_with("/admin/stats?period=30h"));
            page.save_screenshot(if script { "note" } else { "note without a script" }).await;
            if script {
                // It is possible that the hour has ended in the meantime.
                until("the chart tells of it", LIMIT, async || {
                    let is_shown = async || page.text("#readout").await.contains("Version <1.4>");
                    page.press("#lines", Key::End).await;
                    let now = is_shown().await;
                    page.press("#lines", Key::Left).await;
                    now || is_shown().await
                })
                .await;
                page.until_refreshed(2).await;
                assert!(page.text("#annotations").await.contains("Version <1.4>"));
            }
            page.press("#annotations .remove", Key::Enter).await;
            page.until_text("#annotations", str::is_empty).await;
        })
        .await;
    }
}
