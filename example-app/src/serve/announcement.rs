use std::net::SocketAddr;

use example_app::ADMIN;

/// Returns the startup message with all URLs. The token is only included if it was generated.
pub(super) fn announcement(address: SocketAddr, place: &str, token: Option<&str>, is_demo: bool) -> String {
    let site = format!("http://{address}");
    let mut lines = Vec::new();
    match token {
        Some(token) => {
            let query_token: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
            lines.push(format!("Dashboard (token: {token}):\n"));
            lines.push(format!("  {site}{ADMIN}?token={query_token}\n"));
        }
        None => {
            lines.push(
                "Dashboard (to sign in, append the configured token as the `token` parameter):\n".to_owned(),
            );
            lines.push(format!("  {site}{ADMIN}\n"));
        }
    }
    if is_demo {
        lines.push(
            "Demo: all visitors are simulated. A new store gets a history of ninety days.\n".to_owned(),
        );
    }
    lines.push(format!("Site (counts are stored {place}; press Ctrl-C to stop):\n"));
    lines.push(format!("  {site}/"));
    for page in [
        "articles",
        "articles/1",
        "posts",
        "posts/1",
        "members",
        "groups/1",
        "search?q=once",
        "download/notes.txt",
        "slow",
        "fail",
    ] {
        lines.push(format!("  {site}/{page}"));
    }
    lines.push(format!("  {site}/healthz (not counted)\n"));
    lines.push("JSON API:\n".to_owned());
    for query in [
        "counters",
        "series?counter=hits&precision=60",
        "total?counter=hits&precision=86400",
        "uniques?counter=hits&precision=86400",
        "ledger",
        "health",
    ] {
        lines.push(format!("  {site}{ADMIN}/api/{query}"));
    }
    lines.join("\n") + "\n"
}
