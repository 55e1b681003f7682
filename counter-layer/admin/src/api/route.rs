//! A route: its path, its handler, its parameters and its description, all in one place.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use futures_util::future::BoxFuture;
use utoipa::ToSchema;

use super::parameter::{self, Asked, Parameters};
use super::schema::{self, AddSchema};
use crate::upload::Upload;

/// A path with one method, which is served and described.
#[derive(Debug)]
pub(crate) struct Route {
    handler: MethodRouter,
    pub(crate) description: Description,
}

/// The description of a route; its parameters are those that its handler reads.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// The most that an answer may have, which no schema can say, since it is about several parameters.
    pub(crate) most: Option<&'static str>,
    pub(crate) parameters: Vec<parameter::Description>,
    /// The media type and the meaning of the body of a request, where there is one.
    pub(crate) body: Option<(&'static str, &'static str)>,
    /// Answers by their status.
    pub(crate) answers: Vec<(&'static str, Answer)>,
    /// The refusals beside those of every route, by status.
    pub(crate) refusals: Vec<(&'static str, &'static str)>,
    pub(crate) schemas: Vec<AddSchema>,
}

/// The content of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Nothing,
    /// The schema of this name.
    Json(String),
    /// A media type, and the meaning of the text.
    Text(&'static str, &'static str),
    /// Samples, in one of the two formats of a file.
    File,
}

/// The descriptions of all routes of a router, for those of its routes that tell of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog(Arc<OnceLock<Vec<Description>>>);

impl Route {
    pub(crate) fn get<S, P, F, R>(
        path: &'static str,
        summary: &'static str,
        state: S,
        handler: impl Fn(Asked<S, P>) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        S: Clone + Send + Sync + 'static,
        P: Parameters<S> + Send + 'static,
        F: Future<Output = R> + Send + 'static,
        R: IntoResponse,
    {
        Self::new("get", path, summary, P::describe(), serving(MethodFilter::GET, boxed(state, handler)))
    }

    pub(crate) fn delete<S, P, F, R>(
        path: &'static str,
        summary: &'static str,
        state: S,
        handler: impl Fn(Asked<S, P>) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        S: Clone + Send + Sync + 'static,
        P: Parameters<S> + Send + 'static,
        F: Future<Output = R> + Send + 'static,
        R: IntoResponse,
    {
        Self::new(
            "delete",
            path,
            summary,
            P::describe(),
            serving(MethodFilter::DELETE, boxed(state, handler)),
        )
    }

    pub(crate) fn post<S, P, F, R>(
        path: &'static str,
        summary: &'static str,
        state: S,
        handler: impl Fn(Asked<S, P>, Upload) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        S: Clone + Send + Sync + 'static,
        P: Parameters<S> + Send + 'static,
        F: Future<Output = R> + Send + 'static,
        R: IntoResponse,
    {
        let handler = serving(MethodFilter::POST, boxed_with_body(state, handler));
        Self::new("post", path, summary, P::describe(), handler)
    }

    /// A page, which has no parameters of the API.
    pub(crate) fn page(path: &'static str, summary: &'static str, handler: MethodRouter) -> Self {
        Self::new("get", path, summary, Vec::new(), handler)
    }

    fn new(
        method: &'static str,
        path: &'static str,
        summary: &'static str,
        parameters: Vec<parameter::Description>,
        handler: MethodRouter,
    ) -> Self {
        let description = Description {
            method,
            path,
            summary,
            most: None,
            body: None,
            parameters,
            answers: Vec::new(),
            refusals: Vec::new(),
            schemas: Vec::new(),
        };
        Self { handler, description }
    }

    pub(crate) fn answer(mut self, status: &'static str, answer: Answer) -> Self {
        self.description.answers.push((status, answer));
        self
    }

    /// Answers with a text of this media type.
    pub(crate) fn text(self, kind: &'static str, meaning: &'static str) -> Self {
        self.answer("200", Answer::Text(kind, meaning))
    }

    /// Answers with the JSON of this type.
    pub(crate) fn json<T: ToSchema>(self) -> Self {
        self.json_with::<T>("200")
    }

    pub(crate) fn json_with<T: ToSchema>(self, status: &'static str) -> Self {
        let name = T::name().into_owned();
        self.answer(status, Answer::Json(name)).schema::<T>()
    }

    /// Describes a type that an answer refers to.
    pub(crate) fn schema<T: ToSchema>(mut self) -> Self {
        self.description.schemas.push(schema::add::<T>);
        self
    }

    /// Answers 304 when the client has the answer already.
    pub(crate) fn cached(self) -> Self {
        self.answer("304", Answer::Nothing)
    }

    pub(crate) fn refusal(mut self, status: &'static str, reason: &'static str) -> Self {
        self.description.refusals.push((status, reason));
        self
    }

    pub(crate) fn most(mut self, most: &'static str) -> Self {
        self.description.most = Some(most);
        self
    }
}

type Handler = Arc<dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync>;

/// Gives all handlers one type, so that what axum makes of a handler is compiled once and not for each route.
fn boxed<S, P, F, R>(state: S, handler: impl Fn(Asked<S, P>) -> F + Clone + Send + Sync + 'static) -> Handler
where
    S: Clone + Send + Sync + 'static,
    P: Parameters<S> + Send + 'static,
    F: Future<Output = R> + Send + 'static,
    R: IntoResponse,
{
    boxed_with_body(state, move |asked, _| handler(asked))
}

/// Does the same to handlers that read the body of a request.
fn boxed_with_body<S, P, F, R>(
    state: S,
    handler: impl Fn(Asked<S, P>, Upload) -> F + Clone + Send + Sync + 'static,
) -> Handler
where
    S: Clone + Send + Sync + 'static,
    P: Parameters<S> + Send + 'static,
    F: Future<Output = R> + Send + 'static,
    R: IntoResponse,
{
    Arc::new(move |request| {
        let (state, handler) = (state.clone(), handler.clone());
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            match Asked::from_request_parts(&mut parts, &state).await {
                Ok(asked) => handler(asked, Upload::new(&parts, body)).await.into_response(),
                Err(problem) => problem.into_response(),
            }
        })
    })
}

fn serving(method: MethodFilter, handler: Handler) -> MethodRouter {
    on(method, move |request: Request| handler(request))
}

/// Serves these routes, and returns their descriptions.
pub(crate) fn serve(routes: Vec<Route>) -> (Router, Vec<Description>) {
    let mut router = Router::new();
    let mut descriptions = Vec::with_capacity(routes.len());
    for Route { handler, description } in routes {
        router = router.route(description.path, handler);
        descriptions.push(description);
    }
    (router, descriptions)
}

impl Catalog {
    /// Sets the descriptions, once all routes are there.
    pub(crate) fn set(&self, descriptions: Vec<Description>) {
        // A router is put together once.
        _ = self.0.set(descriptions);
    }

    pub(crate) fn descriptions(&self) -> &[Description] {
        self.0.get().map_or(&[], Vec::as_slice)
    }
}
