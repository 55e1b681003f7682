//! The dashboard in a browser: what people see, with the keyboard, without a script, on a telephone.
//!
//! Pictures of it are left in the folder `screenshots` of the target folder.

use std::fs;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use fantoccini::key::Key;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Map, Value, json};
use tests::http::get;
use tests::{Process, process, until};
use tokio::task::{LocalSet, spawn_local};
use url::{ParseError, Url};

use crate::support::BROWSER;

/// How long a browser may take to start, on a busy machine.
const LIMIT: Duration = Duration::from_secs(40);

/// How soon a request is to be seen.
const SOON: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_link_opens_it_and_the_numbers_move_within_two_seconds_of_a_request() {
    browse(Wanted::default(), |page| async move {
        page.open("").await;
        page.until_text("#total", LIMIT, |total| total == "8").await;
        for _ in 0..5 {
            page.visit("/articles").await;
        }
        page.until_text("#total", SOON, |total| total == "13").await;
        page.until_text("#visitors", SOON, |visitors| visitors == "1").await;
        page.until_text("#live", SOON, |live| live == "Live").await;
        // The table follows, and so does the chart's, which is shut.
        page.until_text("#rows", LIMIT, |rows| rows.contains("/articles 6 ")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_can_be_done_by_keyboard() {
    browse(Wanted::default(), |page| async move {
        page.open("").await;
        page.press("#p2", Key::Enter).await;
        page.until_text("#chart-title", LIMIT, |title| title == "Hits per 5 s").await;
        assert!(page.address().await.ends_with("/admin/stats?precision=5"), "{}", page.address().await);
        assert_eq!(page.run("return document.activeElement.id").await, "p2", "the focus stays");
        page.run("history.back()").await;
        page.until_text("#chart-title", LIMIT, |title| title == "Hits per minute").await;

        page.press("#lines", Key::End).await;
        page.until_text("#readout", LIMIT, |readout| readout.contains("hits: 8 so far")).await;
        page.press("#lines", Key::Left).await;
        page.until_text("#readout", LIMIT, |readout| readout.contains("hits: unknown")).await;
        let value = page.run("return document.getElementById('lines').getAttribute('aria-valuetext')").await;
        assert!(value.as_str().is_some_and(|value| value.ends_with("A hits: unknown")), "{value}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_expected_can_be_read_by_keyboard_and_goes_on_while_it_is_live() {
    browse(Wanted::default(), |page| async move {
        page.open("?precision=1&span=30").await;
        page.press("#forecast", Key::Enter).await;
        page.until_text("#outlook", LIMIT, |words| words.starts_with("Nothing is expected yet")).await;
        // The reason goes by itself once there are twenty seconds.
        page.until_text("#outlook", LIMIT, |words| words.contains("finished buckets, with the band")).await;
        assert!(page.address().await.ends_with("?precision=1&span=30&forecast=1"));
        page.press("#lines", Key::End).await;
        let expected =
            |readout: &str| readout.contains("still to come") && readout.contains("B expected of hits: 0.");
        page.until_text("#readout", LIMIT, expected).await;
        page.press("#lines", Key::Home).await;
        page.until_text("#readout", LIMIT, |readout| {
            readout.contains("A hits: ") && !readout.contains("expected")
        })
        .await;
        assert_eq!(page.run("return document.querySelectorAll('#twin tr').length > 30").await, true);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_are_those_of_the_viewer_and_one_key_makes_them_those_of_utc() {
    browse(Wanted::default(), |page| async move {
        page.open("").await;
        let shown = "const time = document.querySelector('#twin time');
                     return [time.dateTime.slice(11, 16), time.textContent]";
        let times = async || {
            let times = page.run(shown).await;
            let minutes = |text: &Value| {
                let (hour, minute) = text.as_str()?.split_once(':')?;
                Some(hour.parse::<u32>().ok()? * 60 + minute.parse::<u32>().ok()?)
            };
            (minutes(&times[0]).expect("a time"), minutes(&times[1]).expect("a time"))
        };
        let (utc, local) = times().await;
        assert_eq!(local, (utc + 9 * 60) % 1440, "Tokyo is nine hours ahead");
        page.press("body", 'u').await;
        page.until_text("#zone-name", LIMIT, |zone| zone == "UTC").await;
        assert!(page.address().await.ends_with("?zone=utc"));
        let (utc, shown) = times().await;
        assert_eq!(shown, utc);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_restores_what_was_seen() {
    browse(Wanted::default(), |page| async move {
        let state = "?counter=hits&counter=%2F&precision=3600&span=24&uniques=1&q=art&sort=name&zone=utc";
        page.open(state).await;
        page.until_text("#chart-title", LIMIT, |title| title == "Hits per hour").await;
        let legend = page.text(".legend ul").await;
        assert!(
            legend.contains("A hits") && legend.contains("B /") && legend.contains("C visitors of hits"),
            "{legend}"
        );
        assert_eq!(page.text("#zone-name").await, "UTC");
        assert_eq!(page.run("return document.getElementById('q').value").await, "art");
        assert_eq!(page.run("return document.querySelectorAll('#twin tr').length").await, 24);
        assert_eq!(page.run("return document.querySelectorAll('#rows tr').length").await, 2);
        page.click("#rows a").await;
        page.until_text("h1", LIMIT, |title| title.starts_with("/articles")).await;
        let address = page.address().await;
        assert!(
            address.contains("/counter?counter=%2Farticles") && address.contains("precision=3600"),
            "{address}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_script_all_of_it_is_there_by_links_and_forms() {
    browse(Wanted { script: false, ..Wanted::default() }, |page| async move {
        page.open("").await;
        assert_eq!(page.text("#zone-name").await, "UTC");
        assert!(!page.text("#glance").await.is_empty());
        page.click("#p1").await;
        page.until_text("#chart-title", LIMIT, |title| title == "Hits per second").await;
        let search = page.client.find(Locator::Css("#q")).await.expect("a field");
        search.send_keys("articles\u{e007}").await.expect("it takes text");
        page.until_text(".pages", LIMIT, |shown| shown == "1–2 of 2").await;
        assert!(page.address().await.contains("precision=1&q=articles"), "{}", page.address().await);
        page.click(".toggle").await;
        page.until_text(".legend ul", LIMIT, |legend| legend.contains("B /articles")).await;
        page.click("summary").await;
        page.until_text("#twin tr", LIMIT, |row| row.contains("so far")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_can_read_it_by_light_in_the_dark_and_on_a_telephone() {
    for (name, dark, width, height) in
        [("light", false, 1180, 1300), ("dark", true, 1180, 1300), ("phone", false, 390, 844)]
    {
        browse(Wanted { width, height, demo: true, ..Wanted::default() }, move |page| async move {
            page.dark(dark).await;
            for state in [
                "?precision=1&span=30&counter=hits&counter=%2F&counter=%2Farticles&forecast=1",
                "/counter?counter=%2Farticles",
                "/api/explore",
            ] {
                page.open(state).await;
                if !state.contains("api") {
                    page.until_text("#live", LIMIT, |live| live == "Live").await;
                }
                let wrong = page.run(RULES).await;
                assert_eq!(wrong, json!([]), "{name}, {state}");
                let widths = page.run("return [document.documentElement.scrollWidth, innerWidth]").await;
                assert_eq!(widths[0], widths[1], "{name} does not scroll sideways");
            }
            // The page to try the routes on has no icon.
            page.forgive().await;
            page.open("?precision=1&span=30&counter=hits&counter=%2F").await;
            tokio::time::sleep(Duration::from_secs(4)).await;
            let places = "return [...document.querySelectorAll('main > *, main > .panel > *, .plot > *')].map((e) => {
                const b = e.getBoundingClientRect(); return [e.id || e.className, b.top + scrollY, b.left] })";
            let before = page.run(places).await;
            tokio::time::sleep(Duration::from_secs(3)).await;
            assert_eq!(page.run(places).await, before, "{name}: nothing jumps while it is live");
            page.picture(name).await;
        })
        .await;
    }
}

/// What every page keeps to; returns what does not.
const RULES: &str = r##"
const wrong = [], say = (rule, element) => wrong.push(`${rule}: ${element.outerHTML.slice(0, 120)}`);
const all = (selector) => [...document.querySelectorAll(selector)];
const shown = (element) => element.checkVisibility() && element.getClientRects().length;
const name = (element) => element.getAttribute("aria-label")
  || (element.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent).join("")
  || element.labels?.[0]?.textContent || element.textContent;
if (!document.documentElement.lang) wrong.push("no language");
if (!document.title) wrong.push("no title");
if (all("h1").length !== 1) wrong.push("not one h1");
if (all("main").length !== 1) wrong.push("not one main");
let level = 0;
for (const heading of all("h1,h2,h3,h4")) {
  const next = +heading.localName[1];
  if (next > level + 1) say("a level is left out", heading);
  level = next;
}
const ids = all("[id]").map((element) => element.id);
for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push(`twice #${id}`);
for (const element of all("a[href], button, input:not([type=hidden]), nav, section, [role=img], [role=region], [role=slider], summary")) {
  if (shown(element) && !name(element).trim()) say("no name", element);
}
for (const chart of all("svg:not([aria-hidden]):not(svg svg)")) {
  if (!chart.getAttribute("aria-label")) say("a chart without a name", chart);
}
if (all("#lines").length && all("#twin tr").length !== all("rect.column").length && all("rect.column").length) wrong.push("a chart without its table");
const regions = new Set();
for (const region of all("nav, section[aria-labelledby], [role=region], [role=search]")) {
  const called = `${region.role || region.localName} ${name(region).trim()}`;
  if (regions.has(called)) say("a region named as another", region);
  regions.add(called);
}
for (const table of all("table")) {
  if (!table.querySelector("thead th[scope=col]")) say("no heads of columns", table);
  if (table.querySelector("tbody tr") && !table.querySelector("tbody th[scope=row]")) say("no heads of rows", table);
}
for (const link of all("a[href], button, summary")) {
  const box = link.getBoundingClientRect();
  // A page without a style has the sizes of the browser.
  if (document.styleSheets.length && shown(link) && link.matches(".chip, button, .toggle, .remove") && (box.height < 24 || box.width < 20)) say(`too small, ${box.width} by ${box.height}`, link);
}
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgba = (colour) => {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
};
const luminance = ([r, g, b]) => [r, g, b].map((c) => c / 255)
  .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, place) => sum + c * [0.2126, 0.7152, 0.0722][place], 0);
const behind = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const colour = rgba(getComputedStyle(e).backgroundColor);
    if (colour[3] === 1) return colour;
  }
  return [255, 255, 255, 1];
};
const contrast = (one, other) => {
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
};
for (const element of all("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!own || !shown(element)) continue;
  const style = getComputedStyle(element);
  const colour = rgba(element.namespaceURI.endsWith("svg") ? style.fill : style.color);
  if (!element.closest("header, main, footer, .skip")) say("outside of all landmarks", element);
  const found = contrast(colour, behind(element));
  if (found < 4.5) say(`contrast ${found.toFixed(2)}`, element);
}
for (const line of all(".line, .mark path, .spark path, .over")) {
  const style = getComputedStyle(line);
  const found = contrast(rgba(line.matches(".over") ? style.fill : style.stroke), behind(line));
  if (found < 3) say(`contrast ${found.toFixed(2)}`, line);
}
for (const element of all("a[href], button, input:not([type=hidden]), summary, [tabindex='0']")) {
  if (!shown(element)) continue;
  element.focus({ focusVisible: true, preventScroll: true });
  if (document.activeElement !== element) say("takes no focus", element);
  if (getComputedStyle(element).outlineStyle === "none") say("its focus cannot be seen", element);
}
document.activeElement?.blur();
return wrong;
"##;

/// What a browser is to be like.
pub(crate) struct Wanted {
    pub(crate) script: bool,
    pub(crate) demo: bool,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { script: true, demo: false, width: 1180, height: 1000 }
    }
}

/// A page in a browser in Tokyo.
#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) client: Client,
    site: SocketAddr,
}

/// Starts the example and a browser that is logged in by its link, has them used, and ends both. In the end
/// the browser must have had nothing to complain about.
pub(crate) async fn browse<F: Future<Output = ()> + 'static>(
    wanted: Wanted,
    using: impl FnOnce(Page) -> F + 'static,
) {
    let mut command = Command::new(process::example().await);
    command.args(["--listen", "127.0.0.1:0", "--flush-interval", "0.25", "--admin-token", "a-token"]);
    for variable in ["REDIS_URL", "NAMESPACE", "TRUST_HOPS", "CONFIRM", "DEMO_TRAFFIC"] {
        command.env_remove(variable);
    }
    if wanted.demo {
        command.arg("--demo-traffic");
    }
    let example = Process::start(&mut command);
    let link = example.wait_line(
        |line| Some(line.trim()).filter(|line| line.contains("?token=")).map(str::to_owned),
        LIMIT,
    );
    let link = link.await;
    let site = Url::parse(&link).expect("a link").socket_addrs(|| None).expect("an address")[0];

    let driver = Process::start(Command::new("chromedriver").arg("--port=0").env("TZ", "Asia/Tokyo"));
    let port = |line: &str| {
        line.strip_prefix("ChromeDriver was started successfully on port ")?
            .trim_end_matches('.')
            .parse::<u16>()
            .ok()
    };
    let port = driver.wait_line(port, LIMIT).await;
    let profile = tempfile::tempdir().expect("a folder");
    let client = ClientBuilder::new(HttpConnector::new())
        .capabilities(capabilities(&wanted, profile.path().to_str().expect("text")))
        .connect(&format!("http://127.0.0.1:{port}"))
        .await
        .expect("the browser starts");
    let page = Page { client: client.clone(), site };

    let used = async move {
        for path in ["/", "/", "/", "/articles/1", "/articles/2", "/search?q=once", "/fail", "/articles"] {
            page.visit(path).await;
        }
        page.client.goto(&link).await.expect("the link opens");
        using(page.clone()).await;
        page.complaints().await
    };
    let used = LocalSet::new().run_until(async { spawn_local(used).await }).await;
    // Also after a panic: a driver that is killed leaves its browser behind.
    client.close().await.expect("the browser ends");
    match used {
        Ok(complaints) => assert_eq!(complaints, json!([]), "the browser complains"),
        Err(error) => resume_unwind(error.into_panic()),
    }
}

fn capabilities(wanted: &Wanted, profile: &str) -> Map<String, Value> {
    let size = format!("--window-size={},{}", wanted.width, wanted.height);
    let profile = format!("--user-data-dir={profile}");
    let mut chrome = json!({"args": [
        "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", size, profile,
    ]});
    if !wanted.script {
        chrome["prefs"] = json!({"profile.managed_default_content_settings.javascript": 2});
    }
    if wanted.width < 500 {
        let (width, height) = (wanted.width, wanted.height);
        chrome["mobileEmulation"] =
            json!({"deviceMetrics": {"width": width, "height": height, "pixelRatio": 2.0}});
    }
    let all = json!({"goog:chromeOptions": chrome, "goog:loggingPrefs": {"browser": "ALL"}});
    all.as_object().expect("an object").clone()
}

impl Page {
    /// Goes to an address of the dashboard.
    pub(crate) async fn open(&self, path: &str) {
        let address = format!("http://{}/admin/stats{path}", self.site);
        self.client.goto(&address).await.expect("it opens");
    }

    /// A request to the site, by somebody else.
    async fn visit(&self, path: &str) {
        get(self.site, path, &[("User-Agent", BROWSER)]).await;
    }

    async fn address(&self) -> String {
        self.client.current_url().await.expect("there is one").to_string()
    }

    async fn text(&self, css: &str) -> String {
        let element = self.client.find(Locator::Css(css)).await.expect("it is there");
        element.text().await.expect("it has a text").split_whitespace().collect::<Vec<_>>().join(" ")
    }

    async fn click(&self, css: &str) {
        let element = self.client.find(Locator::Css(css)).await.expect("it is there");
        element.click().await.expect("it can be clicked");
    }

    async fn press(&self, css: &str, key: impl Into<char>) {
        let element = self.client.find(Locator::Css(css)).await.expect("it is there");
        element.send_keys(&key.into().to_string()).await.expect("it takes keys");
    }

    async fn until_text(&self, css: &str, limit: Duration, wanted: impl Fn(&str) -> bool) {
        let what = format!("the text of {css} is as wanted");
        let is_wanted = async || {
            let Ok(element) = self.client.find(Locator::Css(css)).await else { return false };
            // It may be replaced between the two questions.
            let Ok(text) = element.text().await else { return false };
            wanted(&text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        until(&what, limit, is_wanted).await;
    }

    pub(crate) async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.expect("it runs")
    }

    pub(crate) async fn dark(&self, dark: bool) {
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.driver("goog/cdp/execute", json!({"cmd": "Emulation.setEmulatedMedia", "params": features}))
            .await;
    }

    /// What the browser has against the page: errors, and violations of its policy.
    async fn complaints(&self) -> Value {
        self.driver("se/log", json!({"type": "browser"})).await
    }

    /// Forgets what the browser has said until now.
    pub(crate) async fn forgive(&self) {
        self.complaints().await;
    }

    async fn picture(&self, name: &str) {
        let example = process::example().await;
        let folder: PathBuf =
            example.ancestors().nth(2).expect("target/debug/example-app").join("screenshots");
        fs::create_dir_all(&folder).expect("a folder");
        let picture = self.client.screenshot().await.expect("a picture");
        fs::write(folder.join(format!("{name}.png")), picture).expect("it is written");
    }

    async fn driver(&self, path: &'static str, body: Value) -> Value {
        self.client.issue_cmd(Asked { path, body }).await.expect("the driver knows that")
    }
}

/// A command of this driver alone.
#[derive(Debug)]
struct Asked {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Asked {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}
