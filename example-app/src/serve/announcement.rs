use std::net::SocketAddr;

use example_app::ADMIN;

/// Returns the startup message with all URLs. The token is only included if it was generated.
pub(super) fn announcement(address: SocketAddr, place: &str, token: Option<&str>, is_moving: bool) -> String {
    let site = format!("http://{address}");
    // With one-second buckets, the charts will show data immediately.
    let shown = if is_moving { "precision=1&span=120" } else { "" };
    let mut lines = Vec::new();
    match token {
        Some(token) => {
            let in_a_query: String = form_urlencoded::byte_serialize(token.as_bytes()).collect();
            let and = if is_moving { "&" } else { "" };
            lines.push(format!("Dashboard (token: {token}):\n"));
            lines.push(format!("  {site}{ADMIN}?token={in_a_query}{and}{shown}\n"));
        }
        None => {
            let question = if is_moving { "?" } else { "" };
            lines.push("Dashboard (to log in, add the configured token as `token`):\n".to_owned());
            lines.push(format!("  {site}{ADMIN}{question}{shown}\n"));
        }
    }
    lines.push(format!("Site (counts are kept {place}; Ctrl-C stops it):\n"));
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
    lines.push("Numbers as JSON:\n".to_owned());
    for question in [
        "counters",
        "series?counter=hits&precision=60",
        "total?counter=hits&precision=86400",
        "uniques?counter=hits&precision=86400",
        "ledger",
        "health",
    ] {
        lines.push(format!("  {site}{ADMIN}/api/{question}"));
    }
    lines.join("\n") + "\n"
}
