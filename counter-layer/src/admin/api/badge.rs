//! Small pictures of one counter, for pages and documents.

use std::fmt::Write;
use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use counter_core::{CounterName, Stats, Store, Timestamp};
use http::HeaderMap;

use super::caching;
use super::numbers::{known, read_range, read_series};
use super::query::{Asked, Query};
use crate::admin::digits::grouped;
use crate::admin::problem::Problem;
use crate::admin::sparkline::Sparkline;
use crate::closure::Closure;

/// The statistics, and of which counters there are pictures.
#[derive(Clone)]
pub(crate) struct Pictures<S> {
    pub(crate) stats: Stats<S>,
    pub(crate) shown: Arc<Closure<ShownFn>>,
}

type ShownFn = dyn Fn(&CounterName) -> bool + Send + Sync;

/// The seconds for which a picture may be shown again.
const KEPT: u64 = 60;
/// Points of a line.
const POINTS: u64 = 1000;
/// Characters of a label.
const LABEL: usize = 100;
/// About what a character takes, at eleven pixels high.
const CHARACTER: usize = 7;
const WIDTH: u16 = 160;
const HEIGHT: u16 = 32;

impl<S: Store> Pictures<S> {
    fn counter(&self, query: &Query) -> Result<CounterName, Problem> {
        let counter = query.counter()?;
        let is_shown = self.shown.ask(|shown| shown(&counter)).unwrap_or(false);
        if is_shown { Ok(counter) } else { Err(Problem::unknown_counter(&counter)) }
    }
}

pub(crate) async fn badge<S: Store>(
    State(pictures): State<Pictures<S>>,
    asked: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["counter", "precision", "from", "to", "label"])?;
    let (counter, stats) = (pictures.counter(&query)?, &pictures.stats);
    let label = query.label(LABEL)?.unwrap_or(&counter);
    let count = if query.is_over_a_range() {
        let kept = query.kept_or_usual(&stats.grid().counts)?;
        let series = read_series(stats, &query, &counter, kept, Timestamp::now()).await?;
        series.known_total().map_err(|unreadable| Problem::of(&unreadable.into(), stats))?
    } else {
        let lifetimes = stats.lifetimes(std::slice::from_ref(&counter)).await;
        let total = lifetimes.map_err(|error| Problem::of(&error, stats))?.first().copied().unwrap_or(0);
        if total == 0 {
            known(stats, &counter).await?;
        }
        total
    };
    Ok(caching::respond(&asked, Some(KEPT), "image/svg+xml", draw_badge(label, &grouped(count))))
}

pub(crate) async fn sparkline<S: Store>(
    State(pictures): State<Pictures<S>>,
    asked: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["counter", "precision", "from", "to"])?;
    let (counter, stats) = (pictures.counter(&query)?, &pictures.stats);
    let kept = query.kept_or_usual(&stats.grid().counts)?;
    let Asked { range, .. } = query.range_of(kept, POINTS, Timestamp::now())?;
    let buckets = (range.end.as_unix() - range.start.as_unix()).div_ceil(kept.precision.as_seconds().into());
    if buckets > POINTS {
        let allowed = format!("ranges of at most {POINTS} buckets");
        return Err(Problem::parameter("too many points for a small picture", "from", None, allowed));
    }
    let series = read_range(stats, &counter, kept.precision, range.clone()).await?;
    let mut samples = series.zero_filled().peekable();
    // A bucket that cannot be read keeps its place, and the line goes past it.
    let count = |start| samples.next_if(|sample| sample.start == start).map(|sample| sample.count);
    let counts: Vec<_> = kept.precision.starts(range).map(count).collect();
    Ok(caching::respond(&asked, Some(KEPT), "image/svg+xml", draw_sparkline(&counter, &counts)))
}

fn draw_badge(label: &str, value: &str) -> String {
    let width = |text: &str| text.chars().count() * CHARACTER + 10;
    let (left, right) = (width(label), width(value));
    let (all, label) = (left + right, escape(label));
    let half = |from: usize, width: usize| from + width / 2;
    let (first, second) = (half(0, left), half(left, right));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{all}\" height=\"20\" role=\"img\" \
         aria-label=\"{label}: {value}\"><title>{label}: {value}</title>\
         <rect width=\"{left}\" height=\"20\" fill=\"#444\"/>\
         <rect x=\"{left}\" width=\"{right}\" height=\"20\" fill=\"#05668d\"/>\
         <g fill=\"#fff\" font-family=\"Verdana,DejaVu Sans,sans-serif\" font-size=\"11\" text-anchor=\"middle\">\
         <text x=\"{first}\" y=\"14\" textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\">{label}</text>\
         <text x=\"{second}\" y=\"14\">{value}</text></g></svg>",
        left - 10,
    )
}

fn draw_sparkline(counter: &str, counts: &[Option<u64>]) -> String {
    let most = counts.iter().flatten().copied().max().unwrap_or(0).max(1);
    let line = Sparkline { width: WIDTH.into(), height: HEIGHT.into(), margin: 1.0 };
    let mut points = String::new();
    for (x, y) in line.points(counts.iter().copied()) {
        write!(points, "{x:.1},{y:.1} ").expect("a text takes all");
    }
    let (counter, total) =
        (escape(counter), counts.iter().flatten().fold(0, |sum: u64, count| sum.saturating_add(*count)));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{counter}: {total}\">\
         <title>{counter}: {total}, at most {most}</title>\
         <polyline points=\"{}\" fill=\"none\" stroke=\"#05668d\" stroke-width=\"1.5\"/></svg>",
        points.trim_end(),
    )
}

/// Escapes a text for use between tags and in attributes, and leaves out characters that XML cannot have.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => {}
            c if c.is_control() => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_what_it_stands_in() {
        assert_eq!(escape("<script a='b'>\"&\u{0}\u{ffff}"), "&lt;script a=&#39;b&#39;&gt;&quot;&amp;");
    }

    #[test]
    fn a_line_goes_from_edge_to_edge_and_stays_inside() {
        for (counts, points) in [
            (&[][..], ""),
            (&[Some(0)], "0.0,31.0"),
            (&[Some(0), Some(5), Some(10)], "0.0,31.0 80.0,16.0 160.0,1.0"),
            (&[Some(0), None, Some(10)], "0.0,31.0 160.0,1.0"),
            (&[Some(u64::MAX), Some(0)], "0.0,1.0 160.0,31.0"),
        ] {
            let drawn = draw_sparkline("a", counts);
            assert!(drawn.contains(&format!("points=\"{points}\"")), "{drawn}");
        }
    }
}
