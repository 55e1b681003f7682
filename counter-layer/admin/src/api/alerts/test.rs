use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use super::State;
use crate::access::right::TEST;
use crate::api::parameter::Asked;
use crate::api::route::Route;
use crate::problem::Problem;

/// A test message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AlertTest {
    /// The message id, which is also used in the history.
    id: String,
}

pub(super) fn route(state: State) -> Route {
    let summary = "Sends a test to the receiver of alerts";
    let most = "The next pass of a watch delivers it; `/api/alerts/history` says when it has arrived. One that is on its way \
                already is not sent twice.";
    Route::post(TEST, summary, state, |asked, _| send_test(asked)).json::<AlertTest>().most(most)
}

async fn send_test(
    Asked { state: (stats, alerts), .. }: Asked<State, ()>,
) -> Result<Json<AlertTest>, Problem> {
    let id = alerts.test().await.map_err(|error| Problem::no_change_of_alerts(&error, &stats))?;
    Ok(Json(AlertTest { id }))
}
