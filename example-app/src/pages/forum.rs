//! Pages of the forum. They do not require a login: the author is chosen in the form.

mod read;

use std::error::Error;
use std::future::ready;

use axum::extract::{Form, Path, State};
use axum::http::StatusCode;
use axum::middleware::map_response;
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use counter_layer::{ProblemRejection, WindowLimitLayer};
use serde::Deserialize;

use super::page;
use crate::forum::pause::Pause;
use crate::forum::{Forum, ForumError, MarkTarget};

/// Returns the forum routes. The limit applies to routes that add text.
pub(crate) fn router(forum: Forum, limit: WindowLimitLayer<ProblemRejection>) -> Router {
    let log = Pause::default();
    let texts = Router::new()
        .route("/posts", post(publish))
        .route("/posts/{id}/comments", post(comment))
        .route("/groups/{id}/messages", post(post_message))
        .route_layer(limit);
    let mut marks = Router::new();
    for (path, target, on) in [
        ("/posts/{id}/like", MarkTarget::Post, true),
        ("/posts/{id}/unlike", MarkTarget::Post, false),
        ("/messages/{id}/like", MarkTarget::Message, true),
        ("/messages/{id}/unlike", MarkTarget::Message, false),
        ("/members/{id}/follow", MarkTarget::Member, true),
        ("/members/{id}/unfollow", MarkTarget::Member, false),
        ("/groups/{id}/join", MarkTarget::Group, true),
        ("/groups/{id}/leave", MarkTarget::Group, false),
    ] {
        let mark = async move |State(forum): State<Forum>, Path(id), Form(actor): Form<Actor>| {
            forum.mark(target, id, actor.member, on).await?;
            Ok::<_, Failure>(Redirect::to(&match target {
                MarkTarget::Member => format!("/members/{id}"),
                MarkTarget::Group => format!("/groups/{id}"),
                MarkTarget::Post => format!("/posts/{id}"),
                MarkTarget::Message => "/groups".to_owned(),
            }))
        };
        marks = marks.route(path, post(mark));
    }
    Router::new()
        .route("/posts", get(read::posts))
        .route("/posts/{id}", get(read::one_post))
        .route("/members", get(read::members))
        .route("/members/{id}", get(read::one_member))
        .route("/groups", get(read::groups))
        .route("/groups/{id}", get(read::one_group))
        .merge(texts)
        .merge(marks)
        .layer(map_response(move |response: Response| {
            log_error(&log, &response);
            ready(response)
        }))
        .with_state(forum)
}

#[derive(Debug, Deserialize)]
struct Actor {
    member: u32,
}

#[derive(Debug, Deserialize)]
struct NewPost {
    member: u32,
    title: String,
    text: String,
}

#[derive(Debug, Deserialize)]
struct NewNote {
    member: u32,
    text: String,
}

type PageResult<T = Html<String>> = Result<T, Failure>;

async fn publish(State(forum): State<Forum>, Form(new): Form<NewPost>) -> PageResult<Redirect> {
    let id = forum.publish(new.member, &new.title, &new.text).await?;
    Ok(Redirect::to(&format!("/posts/{id}")))
}

async fn comment(
    State(forum): State<Forum>,
    Path(post): Path<u32>,
    Form(new): Form<NewNote>,
) -> PageResult<Redirect> {
    forum.comment(post, new.member, &new.text).await?;
    Ok(Redirect::to(&format!("/posts/{post}")))
}

async fn post_message(
    State(forum): State<Forum>,
    Path(group): Path<u32>,
    Form(new): Form<NewNote>,
) -> PageResult<Redirect> {
    forum.post_message(group, new.member, &new.text).await?;
    Ok(Redirect::to(&format!("/groups/{group}")))
}

/// Response extension: the error to be logged.
#[derive(Clone, Debug)]
struct LoggedError {
    error: String,
    cause: String,
}

/// Logs response errors, but at most once a second: if the database is unavailable, all requests fail.
fn log_error(log: &Pause, response: &Response) {
    if let Some(LoggedError { error, cause }) = response.extensions().get()
        && log.admits()
    {
        log.set(true);
        tracing::error!(error, cause, "forum request failed");
    }
}

/// A forum error, as a response.
struct Failure(ForumError);

impl From<ForumError> for Failure {
    fn from(error: ForumError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.0 {
            ForumError::NotFound => StatusCode::NOT_FOUND,
            ForumError::InvalidText => StatusCode::UNPROCESSABLE_ENTITY,
            ForumError::Database(_) | ForumError::Count(_) => {
                let cause = self.0.source().map(ToString::to_string).unwrap_or_default();
                let response = page(&self.0.to_string(), "");
                let logged = LoggedError { error: self.0.to_string(), cause };
                return (StatusCode::SERVICE_UNAVAILABLE, Extension(logged), response).into_response();
            }
        };
        (status, page(&self.0.to_string(), "")).into_response()
    }
}
