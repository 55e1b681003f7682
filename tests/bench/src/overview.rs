//! The overview page of the dashboard.

use std::error::Error;
use std::time::{Duration, Instant};

use axum::body::Body;
use counter_admin::Access;
use counter_core::Stats;
use http::{Request, StatusCode};
use tower::ServiceExt;

/// Renders the page for thirty days, and returns how long that took.
///
/// # Errors
///
/// Returns an error if the page cannot be rendered.
pub async fn render(stats: &Stats) -> Result<Duration, Box<dyn Error>> {
    let router = counter_admin::router(stats.clone(), Access::bearer("a-token-for-benchmarks-only")?);
    let request = Request::get("/?period=30d")
        .header("authorization", "Bearer a-token-for-benchmarks-only")
        .body(Body::empty())?;
    let started = Instant::now();
    let response = router.oneshot(request).await?;
    let elapsed = started.elapsed();
    assert_eq!(response.status(), StatusCode::OK, "the page is rendered");
    Ok(elapsed)
}
