//! Badges and sparklines: small SVG images of a counter, to be embedded into pages and documents.

use std::fmt::Write;
use std::sync::Arc;

use axum::response::Response;
use counter_core::time::Grid;
use counter_core::visits::Extent;
use counter_core::{CounterName, Stats, Timestamp};

use super::parameter::{
    Counter, DefaultPrecision, HasGrid, Label, OptionalPrecision, Range, ReadableRetention, RequestParts,
    default_precision,
};
use super::route::Route;
use super::{caching, read};
use crate::problem::Problem;
use crate::sparkline::Sparkline;
use crate::text::digits::grouped;
use crate::text::escape::escape;
use counter_layer::internal::Closure;

/// The statistics, and a filter for the counters that have images.
#[derive(Clone)]
pub(crate) struct Pictures {
    stats: Stats,
    filter: Arc<Closure<FilterFn>>,
}

type FilterFn = dyn Fn(&CounterName) -> bool + Send + Sync;

/// How long caches can reuse an image, in seconds.
const MAX_AGE: u64 = 60;
/// Maximum number of points in a sparkline.
const MAX_POINTS: u64 = 1000;
const SVG: &str = "image/svg+xml";
/// The approximate width of a character, at a font size of 11 pixels.
const CHARACTER_WIDTH: usize = 7;
const WIDTH: u16 = 160;
const HEIGHT: u16 = 32;

impl HasGrid for Pictures {
    fn grid(&self) -> &Grid {
        self.stats.grid()
    }

    fn reach(&self) -> &Grid {
        self.stats.reach()
    }
}

impl Pictures {
    /// Creates images for the counters that `filter` accepts.
    pub(crate) fn new(stats: Stats, filter: impl Fn(&CounterName) -> bool + Send + Sync + 'static) -> Self {
        Self { stats, filter: Arc::new(Closure::new("pictures", filter)) }
    }

    /// Rejects filtered counters. The error is the same as for an unknown counter, so that names don't leak.
    fn check(&self, counter: &CounterName) -> Result<(), Problem> {
        let is_allowed = self.filter.call(|filter| filter(counter)).unwrap_or(false);
        if is_allowed { Ok(()) } else { Err(Problem::unknown_counter(counter)) }
    }
}

pub(crate) fn routes(pictures: &Pictures) -> [Route; 2] {
    let summary = "A badge with the lifetime total of a counter, or the total over a range";
    let badge = Route::get("/badge.svg", summary, pictures.clone(), badge)
        .text(SVG, "A badge")
        .cached()
        .details("At most 10,000 buckets.");
    let summary = "A sparkline of a counter";
    let sparkline = Route::get("/sparkline.svg", summary, pictures.clone(), sparkline)
        .text(SVG, "A line")
        .cached()
        .details("At most 1,000 buckets.");
    [badge, sparkline]
}

async fn badge(
    request: RequestParts<Pictures, (Counter, OptionalPrecision, Range, Label)>,
) -> Result<Response, Problem> {
    let RequestParts { state: pictures, headers, .. } = request;
    let (Counter(counter), OptionalPrecision(retention), range, Label(label)) = request.parameters;
    pictures.check(&counter)?;
    let stats = &pictures.stats;
    let count = if retention.is_none() && range.is_open() {
        let lifetimes = stats.lifetimes(std::slice::from_ref(&counter)).await;
        let total = lifetimes.map_err(|error| Problem::of(&error, stats))?.first().copied().unwrap_or(0);
        if total == 0 {
            read::require_known(stats, std::slice::from_ref(&counter)).await?;
        }
        total
    } else {
        let default_precision =
            || ReadableRetention::of(default_precision(&stats.grid().counts), &stats.reach().counts);
        let retention = retention.unwrap_or_else(default_precision);
        let range = range.buckets(retention, Stats::MAX_BUCKETS, Timestamp::now())?.range;
        let series = read::series(stats, &counter, retention.precision, range).await?;
        series.total().map_err(|unreadable| Problem::of(&unreadable.into(), stats))?
    };
    let svg = draw_badge(label.as_deref().unwrap_or(&counter), &grouped(count));
    Ok(caching::respond(&headers, Some(MAX_AGE), SVG, svg))
}

async fn sparkline(
    request: RequestParts<Pictures, (Counter, DefaultPrecision, Range)>,
) -> Result<Response, Problem> {
    let RequestParts { state: pictures, headers, .. } = request;
    let (Counter(counter), DefaultPrecision(retention), range) = request.parameters;
    pictures.check(&counter)?;
    let range = range.buckets(retention, MAX_POINTS, Timestamp::now())?.range;
    let buckets =
        (range.end.as_unix() - range.start.as_unix()).div_ceil(retention.precision.as_seconds().into());
    if buckets > MAX_POINTS {
        let allowed = format!("ranges of at most {MAX_POINTS} buckets");
        return Err(Problem::parameter("too many points for a sparkline", "from", None, allowed));
    }
    let series = read::series(&pictures.stats, &counter, retention.precision, range.clone()).await?;
    // A picture can't state that a part is missing.
    let part = series.unreadable.as_ref().filter(|unreadable| unreadable.extent == Extent::Part);
    if let Some(part) = part {
        return Err(Problem::of(&part.clone().into(), &pictures.stats));
    }
    let mut samples = series.zero_filled().peekable();
    // An unreadable bucket must not shift the points; the line skips it instead.
    let count = |start| samples.next_if(|sample| sample.start == start).map(|sample| sample.count);
    let counts: Vec<_> = retention.precision.starts(range).map(count).collect();
    Ok(caching::respond(&headers, Some(MAX_AGE), SVG, draw_sparkline(&counter, &counts)))
}

fn draw_badge(label: &str, value: &str) -> String {
    let width = |text: &str| text.chars().count() * CHARACTER_WIDTH + 10;
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
    let max = counts.iter().flatten().copied().max().unwrap_or(0).max(1);
    let line = Sparkline { width: WIDTH.into(), height: HEIGHT.into(), margin: 1.0 };
    let mut points = String::new();
    for (x, y) in line.points(counts.iter().copied()) {
        write!(points, "{x:.1},{y:.1} ").expect("writing to a string never fails");
    }
    let (counter, total) =
        (escape(counter), counts.iter().flatten().fold(0, |sum: u64, count| sum.saturating_add(*count)));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{counter}: {total}\">\
         <title>{counter}: {total}, at most {max}</title>\
         <polyline points=\"{}\" fill=\"none\" stroke=\"#05668d\" stroke-width=\"1.5\"/></svg>",
        points.trim_end(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_spans_the_whole_width_and_stays_inside() {
        for (counts, points) in [
            (&[][..], ""),
            (&[Some(0)], "0.0,31.0"),
            (&[Some(0), Some(5), Some(10)], "0.0,31.0 80.0,16.0 160.0,1.0"),
            (&[Some(0), None, Some(10)], "0.0,31.0 160.0,1.0"),
            (&[Some(u64::MAX), Some(0)], "0.0,1.0 160.0,31.0"),
        ] {
            let svg = draw_sparkline("a", counts);
            assert!(svg.contains(&format!("points=\"{points}\"")), "{svg}");
        }
    }
}
