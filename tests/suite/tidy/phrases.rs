//! Turns of phrase that technical English avoids, in docs, comments and Markdown.
//!
//! `phrases.txt` lists them. They are not wrong in every sentence, so a small share is allowed.

use super::files::{add_files, root, text};

/// Folders whose prose is checked, next to the documents at the root.
const FOLDERS: [&str; 4] = ["counter-core", "counter-layer", "example-app", "tests"];

/// Sentences with fewer words are not counted.
const MIN_WORDS: usize = 4;

/// The largest share of sentences with such a phrase, in percent.
const MAX_PERCENT: usize = 4;

/// A paragraph with the line of the file where it starts.
type Paragraph = (usize, String);

/// Joins lines to paragraphs. `None` ends a paragraph, as an empty line does.
fn paragraphs<'t>(lines: impl Iterator<Item = Option<&'t str>>) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let (mut open, mut in_code) = (false, false);
    for (number, line) in (1..).zip(lines) {
        let line = line.unwrap_or_default().trim();
        let is_fence = line.starts_with("```");
        in_code ^= is_fence;
        if is_fence || in_code || line.is_empty() || line.starts_with(['|', '#']) {
            open = false;
            continue;
        }
        let item = line.strip_prefix("- ");
        if let (Some((_, paragraph)), true, None) = (paragraphs.last_mut(), open, item) {
            *paragraph += " ";
            *paragraph += line;
        } else {
            paragraphs.push((number, item.unwrap_or(line).to_owned()));
        }
        open = true;
    }
    paragraphs
}

/// Returns the text of a line of Rust that contains only a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text))
}

/// Returns the lower-case words of a text, with code replaced by a word that no phrase contains.
fn words(text: &str) -> Vec<String> {
    let outside = text.split('`').enumerate().map(|(at, part)| if at % 2 == 0 { part } else { "CODE" });
    let outside: String = outside.collect();
    let words = outside.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '_');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase).collect()
}

/// Returns the sentences of a paragraph that are long enough to count, as words.
fn sentences(paragraph: &str) -> Vec<Vec<String>> {
    let is_in_code = |(at, _): &(usize, &str)| !paragraph[..*at].matches('`').count().is_multiple_of(2);
    let mut cuts: Vec<_> = [". ", "! ", "? ", ": "]
        .iter()
        .flat_map(|end| paragraph.match_indices(end))
        .filter(|cut| !is_in_code(cut))
        .map(|(at, _)| at + 1)
        .chain([0, paragraph.len()])
        .collect();
    cuts.sort_unstable();
    let sentences = cuts.windows(2).map(|cut| words(&paragraph[cut[0]..cut[1]]));
    sentences.filter(|words| words.len() >= MIN_WORDS).collect()
}

/// Returns the phrases of `phrases.txt`, as words.
fn phrases() -> Vec<Vec<String>> {
    let list = text("tests/suite/tidy/phrases.txt");
    list.lines().filter(|line| !line.starts_with('#')).map(words).filter(|words| !words.is_empty()).collect()
}

fn contains(sentence: &[String], phrase: &[String]) -> bool {
    sentence.windows(phrase.len()).any(|words| words == phrase)
}

/// Adds the sentences with a phrase, with file and line, and returns the number of all sentences.
fn check(file: &str, prose: &[Paragraph], phrases: &[Vec<String>], found: &mut Vec<String>) -> usize {
    let mut count = 0;
    for (line, paragraph) in prose {
        for sentence in sentences(paragraph) {
            count += 1;
            if let Some(phrase) = phrases.iter().find(|phrase| contains(&sentence, phrase)) {
                found.push(format!("{file}:{line}: \"{}\" in: {}", phrase.join(" "), sentence.join(" ")));
            }
        }
    }
    count
}

#[test]
fn few_sentences_use_a_phrase_that_technical_english_avoids() {
    let phrases = phrases();
    let (mut sources, mut documents) = (Vec::new(), Vec::new());
    for folder in FOLDERS {
        add_files(folder, "rs", &mut sources);
        add_files(folder, "md", &mut documents);
    }
    for entry in root().read_dir().expect("the root") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        documents.extend(Some(name).filter(|name| name.ends_with(".md")));
    }
    let (mut found, mut count) = (Vec::new(), 0);
    for file in &sources {
        count += check(file, &paragraphs(text(file).lines().map(comment)), &phrases, &mut found);
    }
    for file in &documents {
        count += check(file, &paragraphs(text(file).lines().map(Some)), &phrases, &mut found);
    }
    assert!(count > 5_000, "only {count} sentences");
    let limit = count * MAX_PERCENT / 100;
    assert!(found.len() <= limit, "{} of {count} sentences, at most {limit}: {found:#?}", found.len());
}

#[test]
fn phrases_are_found_in_comments_and_not_in_code() {
    let phrases = [words("is told"), words("at once")];
    let count = |source: &str| {
        let mut found = Vec::new();
        let sentences = check("f", &paragraphs(source.lines().map(comment)), &phrases, &mut found);
        (sentences, found.len())
    };
    for (source, sentences, found) in [
        ("/// Sends what the caller is\n/// told, as a batch.\nfn f() {}", 1, 1),
        ("//! Returns it at once. A thread is told of it.", 2, 2),
        ("// Sends the batch: the store is told.\n\n// It is\n\n// told about the batch", 2, 1),
        ("/// - The first caller is\n/// - told at once about it", 2, 1),
        ("let is = \"the caller is told\"; // it is told", 0, 0),
        (
            "/// Returns `is told at once` as a text.\n/// ```\n/// // the caller is told at once\n/// ```",
            1,
            0,
        ),
        ("/// This is untold, and not at onceness.", 1, 0),
        ("/// Is told.", 0, 0),
    ] {
        assert_eq!(count(source), (sentences, found), "{source}");
    }
}
