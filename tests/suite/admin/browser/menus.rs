//! The menus in the header.

use tests::browser::{BrowserSettings, Key, browse};

const OPEN_MENUS_SCRIPT: &str =
    "return [...document.querySelectorAll('.menu[open]')].map((menu) => menu.id).join()";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn menus_close_with_escape_or_a_click_elsewhere() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("").await;
        let open_menus = async || page.run(OPEN_MENUS_SCRIPT).await;
        for inside in ["#period-menu > summary", "#period-7-days", "#from"] {
            page.press("#period-menu > summary", Key::Enter).await;
            assert_eq!(open_menus().await, "period-menu");
            page.press(inside, Key::Escape).await;
            assert_eq!(open_menus().await, "", "{inside}");
            let focus = "return document.activeElement.matches('#period-menu > summary')";
            assert_eq!(page.run(focus).await, true, "{inside}");
        }
        page.click("#period-menu > summary").await;
        page.click("#compare-menu > summary").await;
        assert_eq!(open_menus().await, "compare-menu");
        page.click("#more > summary").await;
        assert_eq!(open_menus().await, "more");
        page.click("h1").await;
        assert_eq!(open_menus().await, "");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn downloads_of_the_menu_and_the_chart_are_files() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("?period=24h&compare=none").await;
        for (name, start) in [("pages.csv", "page,"), ("chart.csv", "start,"), ("chart.svg", "<svg ")] {
            let script = format!(
                "fetch(document.querySelector('a[download][href*=\"/{name}\"]').href).then(async (file) =>
                    done([file.ok, file.headers.get('content-disposition') ?? '', await file.text()]))"
            );
            let file = page.run_until_done(&script).await;
            assert_eq!(file[0], true, "{name}");
            let [disposition, text] = [1, 2].map(|place| file[place].as_str().expect("text"));
            assert!(disposition.starts_with("attachment") && disposition.contains(name), "{disposition}");
            assert!(text.starts_with(start), "{name}: {text}");
        }
    })
    .await;
}
