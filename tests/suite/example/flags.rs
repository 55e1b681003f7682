//! Flags of the example: help, version, environment variables, and invalid values.

use tests::http::get;
use tests::process::example_command;

use super::program::start;

#[tokio::test]
async fn the_help_is_grouped_and_names_environment_variables_beside_the_flags() {
    let help = output(&["--help"]).await;
    let headings =
        ["Commands", "Options", "Store", "Server", "Counting", "Dashboard", "Alerts", "Forum", "Demo"];
    let found: Vec<_> = help.lines().filter_map(|line| line.strip_suffix(':')).collect();
    assert!(found.starts_with(&headings), "{help}");
    let sections = help.split("\n\n").filter(|section| section.contains("COUNTER_"));
    let mut flags = 0;
    for section in sections {
        let lines: Vec<_> = section.lines().skip(1).collect();
        let column = lines.iter().find_map(|line| line.find("COUNTER_")).expect("a variable");
        for line in &lines {
            let is_variable = line[column..].starts_with("COUNTER_");
            assert!(
                line.starts_with("      --") && (is_variable || line.contains("--change-grid")),
                "{line}"
            );
        }
        flags += lines.len();
    }
    assert_eq!(flags, 36, "{help}");
}

#[tokio::test]
async fn the_lines_of_the_help_are_short() {
    for command in [&[] as &[&str], &["import"], &["dump"], &["restore"]] {
        let help = output(&[command, &["--help"]].concat()).await;
        let longest = help.lines().max_by_key(|line| line.chars().count()).expect("a line");
        assert!(longest.chars().count() <= 110, "{longest}");
        assert_eq!(help, output(&[command, &["-h"]].concat()).await);
    }
}

#[tokio::test]
async fn the_help_does_not_contain_secrets() {
    let mut command = example_command().await;
    for name in ["COUNTER_SECRET", "COUNTER_ADMIN_TOKEN", "COUNTER_WEBHOOK_SECRET", "COUNTER_STORE"] {
        command.env(name, "a-value-to-hide");
    }
    let output = command.arg("--help").output().expect("it starts");
    assert!(output.status.success() && !String::from_utf8_lossy(&output.stdout).contains("a-value-to-hide"));
}

#[tokio::test]
async fn the_version_is_printed() {
    assert_eq!(output(&["--version"]).await, concat!("example-app ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[tokio::test]
async fn flags_can_be_set_by_environment_variables() {
    let mut command = example_command().await;
    command.envs([("COUNTER_LISTEN", "127.0.0.1:0"), ("COUNTER_ADMIN_TOKEN", "from-the-environment")]);
    let (_process, address) = start(&mut command).await;
    let credentials = [("Authorization", "Bearer from-the-environment")];
    assert_eq!(get(address, "/admin/stats", &credentials).await.status, 200);
}

async fn output(arguments: &[&str]) -> String {
    let output = example_command().await.args(arguments).output().expect("it starts");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).expect("the help is text")
}
