//! A file server on plain hyper, which counts by rules because there is no router.

use std::fs;

use crate::support::{TestApp, Visit, random_visits};

const MANUAL: &str = "/downloads/manual.pdf";

#[tokio::test]
async fn files_are_counted_by_directory_extension_and_name() {
    let folder = tempfile::tempdir().expect("a folder");
    for (file, text) in [
        ("index.html", "home"),
        ("style.css", "body {}"),
        ("about.html", "about"),
        ("assets/app.js", "app()"),
        ("assets/deep/logo.svg", "<svg/>"),
        ("downloads/manual.pdf", "a manual"),
    ] {
        let file = folder.path().join(file);
        fs::create_dir_all(file.parent().expect("a parent folder")).expect("a folder");
        fs::write(file, text).expect("a file");
    }
    let mut files = TestApp::start(env!("CARGO_BIN_EXE_files"), &[folder.path()]).await;
    let first = files.request(Visit::new("GET", "/style.css", "styles")).await;
    let modified = first.headers["last-modified"].to_str().expect("a date").to_owned();
    let visits = random_visits(
        500,
        3,
        &[
            &|_| Visit::new("GET", "/", "home"),
            &|_| Visit::new("GET", "/index.html", "home"),
            &|_| Visit::new("HEAD", "/index.html", "home"),
            &|_| Visit::new("GET", "/about.html", "rest"),
            &|_| Visit::new("GET", "/style.css", "styles"),
            &|_| Visit::new("GET", "/style.css", "styles").header("if-modified-since", &modified),
            // A prefix takes precedence over an extension, even if the file doesn't exist.
            &|_| Visit::new("GET", "/assets/app.js", "assets"),
            &|_| Visit::new("GET", "/assets/deep/logo.svg", "assets"),
            &|random| Visit::new("GET", format!("/assets/{}.css", random.u16(..)), "assets"),
            &|_| Visit::new("GET", "/assets", "assets"),
            &|_| Visit::new("GET", "/downloads/manual.pdf", MANUAL),
            &|_| Visit::new("GET", "/downloads/manual.pdf", MANUAL).header("range", "bytes=0-3"),
            &|_| Visit::new("GET", "/downloads/manual.pdf", MANUAL).header("range", "bytes=99-"),
            &|random| Visit::new("GET", format!("/downloads/{}.pdf", random.u32(..)), "downloads"),
            &|_| Visit::new("POST", "/about.html", "rest"),
            // Counted by the resolved path. This must not match anything outside the folder.
            &|_| Visit::new("GET", "/assets/%2e%2e/about.html", "rest"),
            &|random| Visit::new("GET", format!("/{}.css", random.u16(..)), "styles"),
            &|random| Visit::new("GET", format!("/{}", random.u16(..)), "rest"),
        ],
    );
    let responses = files.request_all(visits).await;
    for status in [200, 206, 304, 307, 404, 405, 416] {
        assert!(
            responses.iter().any(|response| response.status == status),
            "no response has status {status}"
        );
    }
    files.check().await;
}
