//! The browser part of `tests/tools/axe`: runs axe-core on the pages. The argument is the path to axe-core.

use std::error::Error;
use std::fs;

use serde_json::Value;
use tests::browser::{BrowserSettings, Page, browse};

/// Adds notes, so that the charts will show them.
const ADD_NOTES: &str = r#"
const add = (text) => fetch(`/admin/stats/api/notes?text=${text}`, { method: "POST" });
Promise.all(["Version 1.4", "a rather long note about what was done to the service at that time, and why"].map(add)).then(() => done(true));
"#;

/// Calls `done` with the violations on a page, as a list with a string for each element.
const RUN_AXE: &str = r#"
for (const details of document.querySelectorAll("details")) details.open = true;
axe.run(document, { resultTypes: ["violations"] }).then(
  ({ violations }) => done(violations.flatMap(({ id, impact, help, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id} (${impact}): ${help}\n  ${html}\n  ${failureSummary}`))),
  (error) => done([`axe: ${error}`]));
"#;

const PAGES: [&str; 12] = [
    "",
    "?period=1min&by=second&counter=hits&counter=%2F&counter=%2Farticles&forecast=1",
    "?period=24h&show=people&q=nothing+like+it",
    "?period=30d&show=people",
    "/counter?counter=%2Farticles&period=2min&by=second&forecast=1",
    "/counter?counter=%2Farticles&period=yesterday&by=hour&compare=none&show=people",
    "/counter/share?counter=%2Farticles&period=1min&by=second",
    "/counter?counter=%2Fnothing",
    "/alerts",
    "/api/explore",
    "?counter=%2Farticles&sort=people&zone=utc",
    "?period=custom&from=2026-01-01&to=2026-01-31",
];

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the program prints its results")]
async fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).ok_or("usage: axe axe.min.js")?;
    let axe = fs::read_to_string(file)?;
    let mut violations = 0;
    for (name, dark, width, height) in [
        ("light", false, 1180, 1300),
        ("dark", true, 1180, 1300),
        ("phone", false, 390, 844),
        ("dark phone", true, 390, 844),
    ] {
        let axe = axe.clone();
        let findings = browse(
            BrowserSettings { demo: true, dark, width, height, ..BrowserSettings::default() },
            |page| async move {
                let mut findings = Vec::new();
                page.open("").await;
                page.run_until_done(ADD_NOTES).await;
                for path in PAGES {
                    page.open(path).await;
                    findings.extend(
                        try_page(&page, &axe).await.iter().map(|finding| format!("{path:?}: {finding}")),
                    );
                }
                page.open("/counter/share?counter=%2Farticles&period=1min&by=second").await;
                page.click("#create button").await;
                page.until_text("#created-title", |title| title == "Link created").await;
                findings
                    .extend(try_page(&page, &axe).await.iter().map(|finding| format!("share: {finding}")));
                let link = page.attribute("#links a", "href").await;
                page.open(link.trim_start_matches("/admin/stats")).await;
                findings
                    .extend(try_page(&page, &axe).await.iter().map(|finding| format!("shared: {finding}")));
                page.open("/nothing").await;
                findings.extend(
                    try_page(&page, &axe).await.iter().map(|finding| format!("not found: {finding}")),
                );
                page.open("").await;
                page.choose("#more", "form[action$='/logout'] button").await;
                page.until_text("h1", |title| title == "Signed out").await;
                findings.extend(
                    try_page(&page, &axe).await.iter().map(|finding| format!("logged out: {finding}")),
                );
                page.open("").await;
                page.until_text("h1", |title| title == "Sign in").await;
                findings
                    .extend(try_page(&page, &axe).await.iter().map(|finding| format!("log in: {finding}")));
                // The browser complains about the page that doesn't exist. This is expected, so we discard
                // the complaints.
                page.console_errors().await;
                findings
            },
        )
        .await;
        println!("{name}: {} violations on {} pages", findings.len(), PAGES.len() + 5);
        findings.iter().for_each(|finding| println!("{finding}"));
        violations += findings.len();
    }
    if violations > 0 {
        return Err(format!("axe-core found {violations} violations").into());
    }
    Ok(())
}

async fn try_page(page: &Page, axe: &str) -> Vec<String> {
    page.run(axe).await;
    match page.run_until_done(RUN_AXE).await {
        Value::Array(violations) => {
            violations.iter().map(|finding| finding.as_str().unwrap_or("?").to_owned()).collect()
        }
        other => vec![other.to_string()],
    }
}
