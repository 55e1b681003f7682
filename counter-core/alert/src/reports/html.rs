//! A report as HTML for a mail: a table with inline styles, which does not load anything.

use std::fmt::{self, Write};

use super::report::{Change, Percent, Report, grouped};

const CELL: &str = "padding:2px 12px 2px 0;text-align:left;font-weight:normal";
const NUMBER: &str = "padding:2px 12px 2px 0;text-align:right;white-space:nowrap";
const HEAD: &str = "padding:14px 0 4px;text-align:left;font-weight:bold";

impl Report {
    /// Formats the report as an HTML page that mail programs can display, i.e. without scripts, images and
    /// links.
    #[must_use]
    pub fn html(&self) -> String {
        let mut page = String::new();
        // Writing to a `String` always succeeds.
        _ = self.write_html(&mut page);
        page
    }

    fn write_html(&self, page: &mut String) -> fmt::Result {
        let title = Escaped(&self.title);
        write!(
            page,
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
             <body style=\"font-family:sans-serif;color:#222;background:#fff\">\n\
             <h1 style=\"font-size:1.3em\">{title}</h1>\n<table style=\"border-collapse:collapse\">\n"
        )?;
        if let Some(hits) = self.hits {
            row(page, "hits", hits)?;
        }
        if let Some(visitors) = self.visitors {
            row(page, "visitors", visitors)?;
        }
        for of in &self.shares {
            row(page, &of.name, of.hits)?;
        }
        for (title, rows) in [("Pages", &self.pages), ("Risen", &self.risen), ("Fallen", &self.fallen)] {
            if !rows.is_empty() {
                head(page, title)?;
                rows.iter().try_for_each(|of| row(page, &of.name, of.hits))?;
            }
        }
        for (label, values) in &self.labels {
            head(page, label)?;
            for (value, hits) in values {
                row(page, value, Change { now: *hits, before: None })?;
            }
        }
        if !self.alerts.is_empty() {
            head(page, "Alerts")?;
        }
        for alert in &self.alerts {
            text(page, &alert.to_string())?;
        }
        if !self.unread.is_empty() {
            head(page, "Unreadable")?;
        }
        self.unread.iter().try_for_each(|name| text(page, name))?;
        page.write_str("</table>\n</body>\n</html>\n")
    }
}

fn head(page: &mut String, title: &str) -> fmt::Result {
    writeln!(page, "<tr><th colspan=\"3\" scope=\"rowgroup\" style=\"{HEAD}\">{}</th></tr>", Escaped(title))
}

fn row(page: &mut String, name: &str, hits: Change) -> fmt::Result {
    writeln!(
        page,
        "<tr><th scope=\"row\" style=\"{CELL}\"><bdi>{}</bdi></th><td style=\"{NUMBER}\">{}</td>\
         <td style=\"{NUMBER}\">{}</td></tr>",
        Escaped(name),
        grouped(hits.now),
        Percent(hits)
    )
}

fn text(page: &mut String, text: &str) -> fmt::Result {
    writeln!(page, "<tr><td colspan=\"3\" style=\"{CELL}\">{}</td></tr>", Escaped(text))
}

/// Escapes text for HTML.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            character => f.write_char(character),
        })
    }
}
