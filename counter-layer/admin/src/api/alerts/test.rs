use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use super::State;
use crate::access::right::TEST;
use crate::api::parameter::RequestParts;
use crate::api::route::Route;
use crate::problem::Problem;

/// A test message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertTest {
    /// The message id, which is also used in the history.
    id: String,
}

pub(super) fn route(state: State) -> Route {
    let summary = "Sends a test alert";
    let details = "It is delivered by the next run of a watch; `/api/alerts/history` contains the delivery state. If a test is already \
                waiting, another one is not sent.";
    Route::post(TEST, summary, state, |request, _| send_test(request)).json::<AlertTest>().details(details)
}

async fn send_test(
    RequestParts { state: (stats, alerts), .. }: RequestParts<State, ()>,
) -> Result<Json<AlertTest>, Problem> {
    let id = alerts.test().await.map_err(|error| Problem::alerts_not_changed(&error, &stats))?;
    Ok(Json(AlertTest { id }))
}
