//! An application on actix-web, which uses another version of the `http` crate, so we need a small
//! `Transform`.
//!
//! The layer gets the request head, converted to its types. The actix request is passed as the request body,
//! and the actix response as the response body.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::middleware::from_fn;
use actix_web::{App, Error, HttpResponse, HttpServer, web};
use counter_layer::{AccessCounter, AccessCounterLayer, Identity, Rule, Rules};
use strangers::{BoxError, Counting, listen, terminated};
use tower::{Layer, Service as _};

#[actix_web::main]
async fn main() -> Result<(), BoxError> {
    let counting = Counting::start().await?;
    // actix and our rules use the same template syntax.
    let rules = Rules::builder()
        .rule(Rule::counter("home").pattern(""))
        .rule(Rule::counter("/articles/{id}").pattern("/articles/{id}"))
        .rule(Rule::counter("forms").pattern("/form"))
        .default_counter("rest")
        .build()?;
    let layer = counting.layer(Identity::peer())?.rules(rules);
    let app = move || {
        App::new()
            .wrap(Counted(layer.clone()))
            .route("/", web::get().to(async || "home"))
            .route("/articles/{id}", web::get().to(article))
            .route("/form", web::post().to(async |_: web::Form<Vec<(String, String)>>| "thank you"))
            .service(web::resource("/refused").wrap(from_fn(refuse)).to(async || "never"))
    };
    let server = HttpServer::new(app).workers(2).disable_signals();
    let server = server.listen(listen().await?.into_std()?)?.run();
    let handle = server.handle();
    let serving = actix_web::rt::spawn(server);
    terminated().await;
    handle.stop(true).await;
    serving.await??;
    counting.finish().await
}

async fn article(id: web::Path<u64>) -> HttpResponse {
    if *id < 100 { HttpResponse::Ok().body("an article") } else { HttpResponse::NotFound().finish() }
}

/// An inner middleware that fails.
async fn refuse(
    _: ServiceRequest,
    _: actix_web::middleware::Next<impl actix_web::body::MessageBody>,
) -> Result<ServiceResponse, Error> {
    Err(actix_web::error::ErrorForbidden("not you"))
}

/// The layer as actix middleware.
struct Counted(AccessCounterLayer);

impl<S, B> Transform<S, ServiceRequest> for Counted
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: 'static,
{
    type Response = ServiceResponse<B>;
    type Error = Error;
    type Transform = CountedService<S>;
    type InitError = ();
    type Future = Ready<Result<Self::Transform, ()>>;

    fn new_transform(&self, inner: S) -> Self::Future {
        let inner = Rc::new(inner);
        ready(Ok(CountedService(self.0.layer(Inner(Rc::clone(&inner))), inner)))
    }
}

/// The counted service, and the inner service to check for readiness.
struct CountedService<S>(AccessCounter<Inner<S>>, Rc<S>);

/// The service inside the layer, which unwraps the actix request.
struct Inner<S>(Rc<S>);

type Local<T> = Pin<Box<dyn Future<Output = T>>>;

impl<S, B> Service<ServiceRequest> for CountedService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: 'static,
{
    type Response = ServiceResponse<B>;
    type Error = Error;
    type Future = Local<Result<Self::Response, Error>>;

    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.1.poll_ready(cx)
    }

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let response = self.0.clone().call(head(request));
        Box::pin(async move {
            let Ok(response) = response.await;
            let (parts, response) = response.into_parts();
            let mut response = response?;
            // The layer may only add a single header: the visitor cookie.
            for cookie in parts.headers.get_all(http::header::SET_COOKIE) {
                if let Ok(cookie) = cookie.as_bytes().try_into() {
                    response.headers_mut().append(actix_web::http::header::SET_COOKIE, cookie);
                }
            }
            Ok(response)
        })
    }
}

impl<S> Clone for Inner<S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<S, B> tower::Service<http::Request<ServiceRequest>> for Inner<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: 'static,
{
    type Response = http::Response<Result<ServiceResponse<B>, Error>>;
    type Error = Infallible;
    type Future = Local<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<ServiceRequest>) -> Self::Future {
        let response = self.0.call(request.into_body());
        Box::pin(async move {
            let response = response.await;
            // actix converts errors to responses outside all middlewares, but we can already get the status.
            let status = match &response {
                Ok(response) => response.status(),
                Err(error) => error.as_response_error().status_code(),
            };
            let status = http::StatusCode::from_u16(status.as_u16());
            let mut response = http::Response::new(response);
            *response.status_mut() = status.unwrap_or_default();
            Ok(response)
        })
    }
}

/// Converts the request head to the layer's types. Invalid parts are omitted.
fn head(request: ServiceRequest) -> http::Request<ServiceRequest> {
    let (method, uri) = (request.method().as_str().parse(), request.uri().to_string().parse());
    let headers = request.headers().iter().filter_map(|(name, value)| {
        let name = http::HeaderName::from_bytes(name.as_ref()).ok()?;
        Some((name, http::HeaderValue::from_bytes(value.as_bytes()).ok()?))
    });
    let (headers, peer) = (headers.collect(), request.peer_addr());
    let mut head = http::Request::new(request);
    *head.method_mut() = method.unwrap_or_default();
    *head.uri_mut() = uri.unwrap_or_default();
    *head.headers_mut() = headers;
    if let Some(peer) = peer {
        head.extensions_mut().insert(peer);
    }
    head
}
