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
async fn arrow_keys_move_the_focus_in_menus() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("").await;
        let mut focused = "#period-menu > summary".to_owned();
        for (key, id) in [
            (Key::Down, "period-last-5-min"),
            (Key::Down, "period-last-hour"),
            (Key::Up, "period-last-5-min"),
            (Key::Up, "period-all-time"),
            (Key::Down, "period-last-5-min"),
            (Key::End, "period-all-time"),
            (Key::Home, "period-last-5-min"),
        ] {
            page.press(&focused, key).await;
            assert_eq!(page.run("return document.activeElement.id").await, id);
            focused = format!("#{id}");
        }
        page.press(&focused, Key::Enter).await;
        page.until_text("#period-menu > summary", |period| period.starts_with("Last 5 min")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn downloads_of_the_menu_and_the_chart_are_files() {
    browse(BrowserSettings::default(), |page| async move {
        page.open("?period=24h&compare=none").await;
        for (name, start, shown) in [
            ("list.csv", "page,", "pages-20"),
            ("chart.csv", "start,", "people-20"),
            ("chart.svg", "<svg ", "people-20"),
        ] {
            let script = format!(
                "fetch(document.querySelector('a[download][href*=\"/{name}\"]').href).then(async (file) =>
                    done([file.ok, file.headers.get('content-disposition') ?? '', await file.text()]))"
            );
            let file = page.run_until_done(&script).await;
            assert_eq!(file[0], true, "{name}");
            let [disposition, text] = [1, 2].map(|place| file[place].as_str().expect("text"));
            assert!(disposition.starts_with("attachment") && disposition.contains(shown), "{disposition}");
            assert!(text.starts_with(start), "{name}: {text}");
        }
    })
    .await;
}
