//! The overview page of the dashboard, for a site that retains days for longer than the default.

use std::error::Error;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use counter_admin::Access;
use counter_core::time::Retention;
use counter_core::{Precisions, Stats};
use http::{Request, StatusCode};
use tower::ServiceExt;

const TOKEN: &str = "a-token-for-benchmarks-only";

/// Periods to measure.
pub const PERIODS: [&str; 2] = ["30d", "12mo"];

/// Number of days with samples.
pub const DAYS: u32 = 400;

/// Returns the default precisions, but with [`DAYS`] days.
///
/// # Panics
///
/// Never panics.
#[must_use]
pub fn precisions() -> Precisions {
    let days = |retention: Retention| match retention.precision.as_seconds() {
        86_400 => Retention { samples: NonZeroU32::new(DAYS).expect("not 0"), ..retention },
        _ => retention,
    };
    Precisions::new(Precisions::default().iter().map(days)).expect("the default precisions are valid")
}

/// A dashboard with the overview.
#[derive(Clone, Debug)]
pub struct Overview(Router);

impl Overview {
    /// Creates the dashboard. This derives a key, which takes about 50 ms.
    ///
    /// # Errors
    ///
    /// Returns an error if the token is not valid.
    pub fn new(stats: Stats) -> Result<Self, Box<dyn Error>> {
        Ok(Self(counter_admin::router(stats, Access::bearer(TOKEN)?)))
    }

    /// Renders the page for a period such as `30d`, and returns how long that took.
    ///
    /// # Errors
    ///
    /// Returns an error if the page cannot be rendered.
    pub async fn render(&self, period: &str) -> Result<Duration, Box<dyn Error>> {
        let request = Request::get(format!("/?period={period}"))
            .header("authorization", format!("Bearer {TOKEN}"))
            .body(Body::empty())?;
        let started = Instant::now();
        let response = self.0.clone().oneshot(request).await?;
        let elapsed = started.elapsed();
        assert_eq!(response.status(), StatusCode::OK, "the page is rendered");
        Ok(elapsed)
    }
}
