//! Man pages and shell completions.

use std::fs::read_to_string;

use tests::process::example_command;

#[tokio::test]
async fn the_manual_and_the_completions_contain_all_flags_and_variables() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("manual");
    let status = example_command().await.arg("manual").arg(&path).status().expect("it starts");
    assert!(status.success());
    let read = |name: &str| read_to_string(path.join(name)).expect("the file is written").replace("\\-", "-");
    let completions = ["example-app.bash", "example-app.fish", "_example-app"].map(read);
    for command in ["", "import", "dump", "restore", "health"] {
        let mut program = example_command().await;
        let arguments = [command, "--help"].into_iter().filter(|argument| !argument.is_empty());
        let help = program.args(arguments).output().expect("it starts").stdout;
        let page = match command {
            "" => read("example-app.1"),
            command => read(&format!("example-app-{command}.1")),
        };
        let help = String::from_utf8(help).expect("the help is text");
        let flags = help.lines().map(str::trim).filter(|line| line.starts_with("--"));
        let words: Vec<_> = flags
            .flat_map(str::split_whitespace)
            .filter(|word| word.starts_with("--") || word.starts_with("COUNTER_"))
            .map(|word| word.trim_end_matches(']'))
            .collect();
        assert!(words.len() > 2, "{command}: {words:?}");
        for word in words {
            assert!(page.contains(word), "{command} {word}: {page}");
            let name = word.trim_start_matches('-');
            assert!(
                word.starts_with("COUNTER_") || completions.iter().all(|text| text.contains(name)),
                "{word}"
            );
        }
    }
}
