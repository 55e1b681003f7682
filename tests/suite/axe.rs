//! The pages for people under the rules of axe-core, by light, in the dark and on a telephone.

use std::fs;

use serde_json::{Value, json};

use crate::browser::{Page, Wanted, browse};

/// What a page of axe-core finds, as one line for each element.
const RUN: &str = r#"
const done = arguments[arguments.length - 1];
for (const details of document.querySelectorAll("details")) details.open = true;
axe.run(document, { resultTypes: ["violations"] }).then(
  ({ violations }) => done(violations.flatMap(({ id, impact, help, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id} (${impact}): ${help}\n  ${html}\n  ${failureSummary}`))),
  (error) => done([`axe: ${error}`]));
"#;

const PAGES: [&str; 7] = [
    "",
    "?precision=1&span=30&counter=hits&counter=%2F&counter=%2Farticles&forecast=1",
    "?precision=3600&uniques=1&q=nothing+like+it",
    "/counter?counter=%2Farticles&precision=1&span=120&forecast=1",
    "/counter?counter=%2Fnothing",
    "/api/explore",
    "?counter=%2Farticles&sort=uniques&zone=utc",
];

/// Which axe-core: the command fetches it.
const SOURCE: &str = "COUNTER_AXE";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it needs axe-core, which `tests/axe` fetches"]
async fn axe_has_nothing_against_any_page() {
    let file = std::env::var(SOURCE).expect("COUNTER_AXE says where axe.min.js is");
    let axe = fs::read_to_string(file).expect("it can be read");
    for (name, dark, width, height) in [
        ("light", false, 1180, 1300),
        ("dark", true, 1180, 1300),
        ("phone", false, 390, 844),
        ("dark phone", true, 390, 844),
    ] {
        let axe = axe.clone();
        browse(Wanted { width, height, demo: true, ..Wanted::default() }, move |page| async move {
            page.dark(dark).await;
            let mut found = Vec::new();
            for path in PAGES {
                page.open(path).await;
                let against = run(&page, &axe).await;
                let against = against.as_array().cloned().unwrap_or_else(|| vec![against]);
                eprintln!("{name}: {} in {path:?}", against.len());
                found.extend(
                    against.iter().map(|what| format!("{name}, {path:?}: {}", what.as_str().unwrap_or("?"))),
                );
            }
            assert!(found.is_empty(), "{}", found.join("\n"));
            // The page that is not there is one of them, and the browser says so.
            page.forgive().await;
        })
        .await;
    }
}

async fn run(page: &Page, axe: &str) -> Value {
    page.run(axe).await;
    page.client.execute_async(RUN, vec![json!(null)]).await.expect("it runs")
}
