//! Pages of the site. The handlers do not contain any counting code.

pub(crate) mod forum;

use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{Html, IntoResponse};
use serde::Deserialize;

const ARTICLES: [(u32, &str, &str); 3] = [
    (1, "Counting", "Every visit is counted exactly once."),
    (2, "Folding", "A thousand hits per second become a single number."),
    (3, "Fencing", "Retry as often as you like: a hit is only counted once."),
];

#[derive(Debug, Deserialize)]
pub(crate) struct Search {
    #[serde(default)]
    q: String,
}

pub(crate) async fn home() -> Html<String> {
    page(
        "A small site",
        "<ul>\
         <li><a href=\"/articles\">Articles</a>\
         <li><a href=\"/posts\">Posts</a>, <a href=\"/members\">members</a> and <a href=\"/groups\">groups</a>\
         of the forum\
         <li><a href=\"/search?q=once\">Search</a>\
         <li><a href=\"/download/notes.txt\">A download</a>\
         <li><a href=\"/slow\">A slow page</a>\
         <li><a href=\"/fail\">A page that fails</a>\
         <li><a href=\"/nowhere\">A missing page</a>\
         </ul>",
    )
}

pub(crate) async fn articles() -> Html<String> {
    page("Articles", &list(ARTICLES.iter()))
}

pub(crate) async fn article(Path(id): Path<u32>) -> Result<Html<String>, impl IntoResponse> {
    match ARTICLES.iter().find(|(number, ..)| *number == id) {
        Some((_, title, text)) => Ok(page(title, &format!("<p>{text}</p>"))),
        None => Err((StatusCode::NOT_FOUND, page("Article not found", ""))),
    }
}

pub(crate) async fn search(Query(Search { q }): Query<Search>) -> Html<String> {
    let query = q.to_lowercase();
    let found = ARTICLES.iter().filter(|(_, title, text)| {
        title.to_lowercase().contains(&query) || text.to_lowercase().contains(&query)
    });
    page("Search", &list(found))
}

pub(crate) async fn download(Path(file): Path<String>) -> Result<impl IntoResponse, StatusCode> {
    if file != "notes.txt" {
        return Err(StatusCode::NOT_FOUND);
    }
    let headers = [(CONTENT_TYPE, "text/plain"), (CONTENT_DISPOSITION, "attachment; filename=\"notes.txt\"")];
    Ok((headers, "Visits are counted per route template: /download/{file}\n"))
}

pub(crate) async fn slow() -> Html<String> {
    tokio::time::sleep(crate::SLOW).await;
    page("That took a second", "")
}

pub(crate) async fn fail() -> impl IntoResponse {
    (StatusCode::INTERNAL_SERVER_ERROR, page("This page always fails", ""))
}

pub(crate) async fn not_found() -> impl IntoResponse {
    (StatusCode::NOT_FOUND, page("Page not found", ""))
}

fn list<'a>(articles: impl Iterator<Item = &'a (u32, &'a str, &'a str)>) -> String {
    let item = |(id, title, _): &(u32, &str, &str)| format!("<li><a href=\"/articles/{id}\">{title}</a>");
    format!("<ul>{}</ul>", articles.map(item).collect::<String>())
}

fn page(title: &str, body: &str) -> Html<String> {
    Html(format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
         <h1>{title}</h1>{body}<p><a href=\"/\">Home</a></p></html>"
    ))
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}
