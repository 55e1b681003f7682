//! Routes. A route combines path, handler, parameters and description in one value.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::{FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use futures_util::future::BoxFuture;
use utoipa::ToSchema;

use super::parameter::{self, Parameters, RequestParts};
use super::schema::{self, AddSchema};
use crate::upload::Upload;

/// A path and a method, with the handler and the description.
#[derive(Debug)]
pub(crate) struct Route {
    handler: MethodRouter,
    pub(crate) description: Description,
}

/// Describes a route. The parameters are derived from the handler.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// A note on the response limits. A schema can't express these, because they depend on multiple
    /// parameters.
    pub(crate) details: Option<&'static str>,
    pub(crate) parameters: Vec<parameter::Description>,
    /// The media type and the description of the request body, if the route reads it.
    pub(crate) body: Option<(&'static str, &'static str)>,
    /// Responses by status.
    pub(crate) responses: Vec<(&'static str, ResponseKind)>,
    /// Errors by status, in addition to the common errors.
    pub(crate) errors: Vec<(&'static str, &'static str)>,
    pub(crate) schemas: Vec<AddSchema>,
}

/// The response content.
#[derive(Clone, Debug)]
pub(crate) enum ResponseKind {
    Empty,
    /// JSON with the schema of this name.
    Json(String),
    /// Text, with a media type and a description.
    Text(&'static str, &'static str),
    /// Samples, as CSV or NDJSON.
    File,
}

/// The descriptions of all routes. Used by routes that list the API.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog(Arc<OnceLock<Vec<Description>>>);

impl Route {
    pub(crate) fn get<S, P, F, R>(
        path: &'static str,
        summary: &'static str,
        state: S,
        handler: impl Fn(RequestParts<S, P>) -> F + Clone + Send + Sync + 'static,
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
        handler: impl Fn(RequestParts<S, P>) -> F + Clone + Send + Sync + 'static,
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
        handler: impl Fn(RequestParts<S, P>, Upload) -> F + Clone + Send + Sync + 'static,
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

    /// Creates a page of the dashboard. Pages don't use API parameters.
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
            details: None,
            body: None,
            parameters,
            responses: Vec::new(),
            errors: Vec::new(),
            schemas: Vec::new(),
        };
        Self { handler, description }
    }

    pub(crate) fn response(mut self, status: &'static str, response: ResponseKind) -> Self {
        self.description.responses.push((status, response));
        self
    }

    /// Describes a text response.
    pub(crate) fn text(self, kind: &'static str, meaning: &'static str) -> Self {
        self.response("200", ResponseKind::Text(kind, meaning))
    }

    /// Describes a JSON response.
    pub(crate) fn json<T: ToSchema>(self) -> Self {
        self.json_with::<T>("200")
    }

    pub(crate) fn json_with<T: ToSchema>(self, status: &'static str) -> Self {
        let name = T::name().into_owned();
        self.response(status, ResponseKind::Json(name)).schema::<T>()
    }

    /// Adds the schema of a nested type.
    pub(crate) fn schema<T: ToSchema>(mut self) -> Self {
        self.description.schemas.push(schema::add::<T>);
        self
    }

    /// Describes the 304 response of routes that support `If-None-Match`.
    pub(crate) fn cached(self) -> Self {
        self.response("304", ResponseKind::Empty)
    }

    pub(crate) fn error_response(mut self, status: &'static str, reason: &'static str) -> Self {
        self.description.errors.push((status, reason));
        self
    }

    pub(crate) fn details(mut self, details: &'static str) -> Self {
        self.description.details = Some(details);
        self
    }
}

type Handler = Arc<dyn Fn(Request) -> BoxFuture<'static, Response> + Send + Sync>;

/// Boxes a handler. We only need to instantiate axum's handler machinery for a single type instead of every
/// route.
fn boxed<S, P, F, R>(
    state: S,
    handler: impl Fn(RequestParts<S, P>) -> F + Clone + Send + Sync + 'static,
) -> Handler
where
    S: Clone + Send + Sync + 'static,
    P: Parameters<S> + Send + 'static,
    F: Future<Output = R> + Send + 'static,
    R: IntoResponse,
{
    boxed_with_body(state, move |request, _| handler(request))
}

/// Boxes a handler that reads the request body.
fn boxed_with_body<S, P, F, R>(
    state: S,
    handler: impl Fn(RequestParts<S, P>, Upload) -> F + Clone + Send + Sync + 'static,
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
            match RequestParts::from_request_parts(&mut parts, &state).await {
                Ok(request) => handler(request, Upload::new(&parts, body)).await.into_response(),
                Err(problem) => problem.into_response(),
            }
        })
    })
}

fn serving(method: MethodFilter, handler: Handler) -> MethodRouter {
    on(method, move |request: Request| handler(request))
}

/// Builds a router from the routes, and returns the descriptions.
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
    /// Sets the descriptions. This must be called when all routes are known.
    pub(crate) fn set(&self, descriptions: Vec<Description>) {
        // Can't fail: a router is only built once.
        _ = self.0.set(descriptions);
    }

    pub(crate) fn descriptions(&self) -> &[Description] {
        self.0.get().map_or(&[], Vec::as_slice)
    }
}
