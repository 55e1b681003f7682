//! The dashboard of the example in a browser.

use std::fs;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fantoccini::actions::{InputSource, MouseActions, PointerAction, TouchActions};
use fantoccini::elements::Element;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use http::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Map, Value, json};
use tokio::task::{LocalSet, spawn_local};
use url::{ParseError, Url};

pub use fantoccini::key::Key;

use crate::http::get;
use crate::noon::noon_offset;
use crate::process::{Process, example, example_command};
use crate::turn::Turn;
use crate::until::until;

/// Upper bound for the time that the browser may take to start, or to show a change.
const LIMIT: Duration = crate::until::LIMIT;

/// Number of ports to try before we give up.
const MAX_PORT_ATTEMPTS: usize = 5;

/// A window that is narrower is emulated as a phone.
const PHONE_WIDTH: u32 = 500;

/// User agent of the visitor.
const USER_AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";

/// Paths that are requested before the dashboard is opened.
const VISITED_PATHS: [&str; 8] =
    ["/", "/", "/", "/articles/1", "/articles/2", "/search?q=once", "/fail", "/articles"];

/// Browser settings.
#[derive(Clone, Copy, Debug)]
pub struct BrowserSettings {
    /// Enables scripts.
    pub script: bool,
    /// Starts the site with simulated visits and alerts.
    pub demo: bool,
    /// Prefers the dark colour scheme.
    pub dark: bool,
    /// Window width in pixels. If this is less than 500, the browser will emulate a phone.
    pub width: u32,
    /// Window height in pixels.
    pub height: u32,
}

impl Default for BrowserSettings {
    fn default() -> Self {
        Self { script: true, demo: false, dark: false, width: 1180, height: 1000 }
    }
}

/// A page in a browser with the time zone of Tokyo.
#[derive(Clone, Debug)]
pub struct Page {
    client: Client,
    site: SocketAddr,
}

/// Starts the example, sends eight requests, opens the dashboard via the printed link, and calls `using`.
///
/// At the site, it is noon. Returns the result of `using` after the browser and the example are closed.
///
/// # Panics
///
/// Panics if something can't be started or stopped, if the browser logs an error, or if `using` panics.
pub async fn browse<F: Future<Output: 'static> + 'static>(
    settings: BrowserSettings,
    using: impl FnOnce(Page) -> F + 'static,
) -> F::Output {
    let _turn = Turn::take();
    let (_example, link) = start_example(settings.demo).await;
    browse_at(link, settings, using).await
}

/// Like [`browse`], but for a site that is already running, with this link to the dashboard. The pages are
/// requested here as well, and the counter `hits` must include these eight requests.
///
/// # Panics
///
/// Panics like [`browse`].
pub async fn browse_at<F: Future<Output: 'static> + 'static>(
    link: String,
    settings: BrowserSettings,
    using: impl FnOnce(Page) -> F + 'static,
) -> F::Output {
    let _turn = Turn::take();
    let site = Url::parse(&link).expect("a link").socket_addrs(|| None).expect("an address")[0];
    let profile = tempfile::tempdir().expect("a folder");
    let (_driver, port) = start_driver(profile.path()).await;
    let client = ClientBuilder::new(HttpConnector::new())
        .capabilities(capabilities(settings))
        .connect(&format!("http://127.0.0.1:{port}"))
        .await
        .expect("the browser starts");
    let page = Page { client: client.clone(), site };

    let result = async move {
        page.prefer(if settings.dark { "dark" } else { "light" }).await;
        for path in VISITED_PATHS {
            page.visit(path).await;
        }
        page.open_url(&link).await;
        let output = using(page.clone()).await;
        (output, page.console_errors().await)
    };
    let result = LocalSet::new().run_until(async { spawn_local(result).await }).await;
    // Also after a panic: if we kill the driver, the browser will keep running.
    client.close().await.expect("the browser ends");
    match result {
        Ok((output, console_errors)) => {
            assert!(console_errors.is_empty(), "errors in the browser: {console_errors:?}");
            output
        }
        Err(error) => resume_unwind(error.into_panic()),
    }
}

/// Starts the example. Returns the process and a link to its dashboard.
async fn start_example(demo: bool) -> (Process, String) {
    let mut command = example_command().await;
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--flush-interval",
        "0.25",
        "--admin-token",
        "a-token-for-tests",
        "--distributions",
    ]);
    let hours = noon_offset() / 3600;
    let sign = if hours < 0 { '-' } else { '+' };
    command.arg(format!("--utc-offset={sign}{:02}:00", hours.abs()));

    if demo {
        command.args(["--demo-traffic", "--alerts"]);
    }
    let example = Process::start(&mut command);
    // A configured token is not printed.
    let link = |line: &str| Some(line.trim()).filter(|line| line.contains("/admin/stats")).map(str::to_owned);
    let link = example.wait_line(link, LIMIT).await;
    let and = if link.contains('?') { '&' } else { '?' };
    (example, format!("{link}{and}token=a-token-for-tests"))
}

/// Starts the browser driver, which creates the profile in this folder. Returns the process and its port.
async fn start_driver(folder: &Path) -> (Process, u16) {
    let started = |line: &str| {
        // The driver needs the port for both IPv4 and IPv6, but a port that is free for IPv4 might be taken
        // for IPv6.
        if line.contains("port not available") {
            return Some(None);
        }
        let port = line.strip_prefix("ChromeDriver was started successfully on port ")?;
        port.trim_end_matches('.').parse::<u16>().ok().map(Some)
    };
    for _ in 0..MAX_PORT_ATTEMPTS {
        let mut command = Command::new("chromedriver");
        // If we create the profile, then Chromium 148 does not focus its pages.
        command.arg("--port=0").env("TZ", "Asia/Tokyo").env("TMPDIR", folder);
        let driver = Process::start(&mut command);
        if let Some(port) = driver.wait_line(started, LIMIT).await {
            return (driver, port);
        }
    }
    panic!("chromedriver does not find a port");
}

fn capabilities(settings: BrowserSettings) -> Map<String, Value> {
    let BrowserSettings { width, height, .. } = settings;
    let mut chrome = json!({"args": [
        "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
        format!("--window-size={width},{height}"),
    ]});
    if !settings.script {
        chrome["prefs"] = json!({"profile.managed_default_content_settings.javascript": 2});
    }
    if width < PHONE_WIDTH {
        chrome["mobileEmulation"] =
            json!({"deviceMetrics": {"width": width, "height": height, "pixelRatio": 2.0}});
    }
    let all = json!({"goog:chromeOptions": chrome, "goog:loggingPrefs": {"browser": "ALL"}});
    all.as_object().expect("an object").clone()
}

/// All methods panic if the command fails or if the element does not exist.
impl Page {
    /// Waits until all requests are counted, and opens a path of the dashboard.
    pub async fn open(&self, path: &str) {
        let is_counted = async || {
            let path = "/admin/stats/api/lifetimes?counter=hits";
            let answer = get(self.site, path, &[("Authorization", "Bearer a-token-for-tests")]).await;
            let hits: Value = serde_json::from_str(&answer.body).expect("JSON");
            hits["lifetimes"][0]["total"].as_u64() >= Some(VISITED_PATHS.len() as u64)
        };
        until("the visits are counted", LIMIT, is_counted).await;
        let address = format!("http://{}/admin/stats{path}", self.site);
        self.open_url(&address).await;
    }

    /// Opens any URL, and waits until the page has been parsed. On a busy machine, the driver sometimes does not.
    pub async fn open_url(&self, url: &str) {
        self.client.goto(url).await.expect("it opens");
        let is_parsed = async || {
            let state = self.client.execute("return document.readyState", Vec::new()).await;
            state.is_ok_and(|state| state == "complete")
        };
        until("the page is parsed", LIMIT, is_parsed).await;
    }

    /// Sends a request to the site as a visitor.
    pub async fn visit(&self, path: &str) {
        get(self.site, path, &[("User-Agent", USER_AGENT)]).await;
    }

    /// Returns the page URL.
    pub async fn address(&self) -> String {
        self.client.current_url().await.expect("the page has a URL").to_string()
    }

    /// Returns the visible text of an element, with white space collapsed.
    pub async fn text(&self, css: &str) -> String {
        single_spaced(&self.element(css).await.text().await.expect("the element has text"))
    }

    /// Waits for the text of an element to match.
    pub async fn until_text(&self, css: &str, predicate: impl Fn(&str) -> bool) {
        let is_match = async || {
            let Ok(element) = self.client.find(Locator::Css(css)).await else { return false };
            // The element may be replaced between these two commands.
            let Ok(text) = element.text().await else { return false };
            predicate(&single_spaced(&text))
        };
        until(&format!("the text of {css} matches"), LIMIT, is_match).await;
    }

    /// Returns the value of an attribute.
    pub async fn attribute(&self, css: &str, name: &str) -> String {
        let value = self.element(css).await.attr(name).await.expect("the element can be read");
        value.unwrap_or_else(|| panic!("{css} has no {name}"))
    }

    /// Clicks on an element.
    pub async fn click(&self, css: &str) {
        self.element(css).await.click().await.expect("the element can be clicked");
    }

    /// Opens a menu, and follows a link in it by keyboard.
    pub async fn choose(&self, menu: &str, css: &str) {
        self.press(&format!("{menu} > summary"), Key::Enter).await;
        self.press(css, Key::Enter).await;
    }

    /// Drags the mouse between two points of an element: fractions of its width.
    pub async fn drag(&self, css: &str, from: f64, to: f64) {
        let mouse = MouseActions::new("mouse".to_owned())
            .then(self.point(css, from).await)
            .then(PointerAction::Down { button: 0 })
            .then(self.point(css, to).await)
            .then(PointerAction::Up { button: 0 });
        self.client.perform_actions(mouse).await.expect("the mouse moves");
    }

    /// Taps on a point of an element: a fraction of its width.
    pub async fn tap(&self, css: &str, at: f64) {
        let finger = TouchActions::new("finger".to_owned())
            .then(self.point(css, at).await)
            .then(PointerAction::Down { button: 0 })
            .then(PointerAction::Up { button: 0 });
        self.client.perform_actions(finger).await.expect("the finger taps");
    }

    /// Returns a move to the middle of an element's height, after scrolling there.
    async fn point(&self, css: &str, at: f64) -> PointerAction {
        let script = format!(
            "const element = document.querySelector('{css}'); element.scrollIntoView({{ block: 'center' }});
             const box = element.getBoundingClientRect();
             return [box.left + {at} * box.width, box.top + box.height / 2]"
        );
        let point = self.run(&script).await;
        let [x, y] = [0, 1].map(|place| point[place].as_f64().expect("a coordinate"));
        PointerAction::MoveTo { duration: None, x, y }
    }

    /// Presses a key in an element.
    pub async fn press(&self, css: &str, key: impl Into<char>) {
        self.write(css, &key.into().to_string()).await;
    }

    /// Types text into an element.
    pub async fn write(&self, css: &str, text: &str) {
        let is_sent = async || match self.element(css).await.send_keys(text).await {
            // The element may be replaced between these two commands.
            Err(error) if error.is_stale_element_reference() => false,
            sent => sent.map(|()| true).expect("the element accepts keys"),
        };
        until(&format!("{css} accepts keys"), LIMIT, is_sent).await;
    }

    async fn element(&self, css: &str) -> Element {
        self.client.find(Locator::Css(css)).await.expect("the element exists")
    }

    /// Runs a script and returns the result.
    pub async fn run(&self, script: &str) -> Value {
        self.client.execute(script, Vec::new()).await.expect("it runs")
    }

    /// Runs a script that must call `done`, and returns the argument of this call.
    pub async fn run_until_done(&self, script: &str) -> Value {
        let script = format!("const done = arguments[arguments.length - 1];\n{script}");
        self.client.execute_async(&script, Vec::new()).await.expect("it runs")
    }

    /// Waits until a live page has refreshed itself this number of times from now on.
    pub async fn until_refreshed(&self, times: usize) {
        let refreshes = async || {
            let refreshes = "return performance.getEntriesByType('resource')
                .filter((entry) => entry.name.includes('/parts') && entry.responseEnd).length";
            usize::try_from(self.run(refreshes).await.as_u64().expect("a number")).expect("some")
        };
        // The page might not show the latest response yet.
        let target = refreshes().await + times + 1;
        until("the page has refreshed itself", LIMIT, async || refreshes().await >= target).await;
    }

    /// Changes the time zone of the viewer, for pages that are opened later.
    pub async fn emulate_zone(&self, zone: &str) {
        self.cdp("Emulation.setTimezoneOverride", json!({"timezoneId": zone})).await;
    }

    /// Changes the width of the page.
    pub async fn emulate_width(&self, width: u32) {
        let metrics =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < PHONE_WIDTH});
        self.cdp("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    async fn prefer(&self, scheme: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.cdp("Emulation.setEmulatedMedia", features).await;
    }

    /// Calls a method of the Chrome DevTools Protocol.
    async fn cdp(&self, method: &str, params: Value) {
        self.driver("goog/cdp/execute", json!({"cmd": method, "params": params})).await;
    }

    /// Takes the errors and policy violations from the browser log.
    pub async fn console_errors(&self) -> Vec<String> {
        let entries = self.driver("se/log", json!({"type": "browser"})).await;
        entries.as_array().expect("entries").iter().map(Value::to_string).collect()
    }

    /// Saves a screenshot to the folder `screenshots` in the target folder.
    pub async fn save_screenshot(&self, name: &str) {
        let example = example().await;
        let folder: PathBuf =
            example.ancestors().nth(2).expect("target/debug/example-app").join("screenshots");
        fs::create_dir_all(&folder).expect("a folder");
        let bytes = self.client.screenshot().await.expect("the browser takes a screenshot");
        fs::write(folder.join(format!("{name}.png")), bytes).expect("it is written");
    }

    /// Returns a screenshot of the whole element as PNG bytes.
    pub async fn screenshot_of(&self, css: &str) -> Vec<u8> {
        // We need to grow the window, because the screenshot would otherwise be clipped to it.
        let script = format!(
            "const box = document.querySelector('{css}').getBoundingClientRect();
             return [outerWidth, Math.ceil(outerHeight - innerHeight + scrollY + box.bottom)]"
        );
        let size = self.run(&script).await;
        let [width, height] =
            [0, 1].map(|place| u32::try_from(size[place].as_u64().expect("pixels")).expect("few"));
        self.client.set_window_size(width, height).await.expect("it grows");
        self.element(css).await.screenshot().await.expect("the browser takes a screenshot")
    }

    /// Returns a screenshot of the whole page as PNG bytes.
    pub async fn full_screenshot(&self) -> Vec<u8> {
        let script = "return [innerWidth, innerHeight, document.documentElement.scrollHeight]";
        let size = self.run(script).await;
        let emulate = async |height: &Value| {
            let is_phone = size[0].as_u64() < Some(PHONE_WIDTH.into());
            let metrics =
                json!({"width": size[0], "height": height, "deviceScaleFactor": 1, "mobile": is_phone});
            self.cdp("Emulation.setDeviceMetricsOverride", metrics).await;
        };
        emulate(&size[2]).await;
        let bytes = self.client.screenshot().await.expect("the browser takes a screenshot");
        emulate(&size[1]).await;
        bytes
    }

    async fn driver(&self, path: &'static str, body: Value) -> Value {
        self.client.issue_cmd(DriverCommand { path, body }).await.expect("the driver supports the command")
    }
}

fn single_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A command that only this driver supports.
#[derive(Debug)]
struct DriverCommand {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for DriverCommand {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}
