//! An application on poem. The Tower adapter in poem passes poem requests to layers, so we convert the head
//! to a request of the `http` crate with the poem request as the body.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use counter_layer::{AccessCounter, AccessCounterLayer, Identity, Rule, Rules};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use poem::listener::TcpAcceptor;
use poem::web::Path;
use poem::{Addr, Endpoint, EndpointExt, Middleware, Request, Response, Route, Server, get, handler};
use strangers::{BoxError, Counting, listen, terminated};
use tower::{Layer, Service};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let counting = Counting::start().await?;
    let rules = Rules::builder()
        .rule(Rule::counter("home").pattern(""))
        .rule(Rule::counter("/articles/{id}").pattern("/articles/{id}"))
        .default_counter("rest")
        .build()?;
    let app = Route::new()
        .at("/", get(home))
        .at("/articles/:id", get(article))
        .with(Counted(counting.layer(Identity::peer())?.rules(rules)));
    let server = Server::new_with_acceptor(TcpAcceptor::from_tokio(listen().await?)?);
    server.run_with_graceful_shutdown(app, terminated(), Some(Duration::from_secs(10))).await?;
    counting.finish().await
}

#[handler]
fn home() -> &'static str {
    "home"
}

#[handler]
fn article(Path(id): Path<u64>) -> poem::Result<&'static str> {
    if id < 100 { Ok("an article") } else { Err(poem::http::StatusCode::NOT_FOUND.into()) }
}

/// The layer as poem middleware.
struct Counted(AccessCounterLayer);

struct CountedEndpoint<E>(AccessCounter<Inner<E>>);

/// The service inside the layer, which unwraps the poem request.
struct Inner<E>(Arc<E>);

impl<E: Endpoint + 'static> Middleware<E> for Counted {
    type Output = CountedEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        CountedEndpoint(self.0.layer(Inner(Arc::new(inner))))
    }
}

impl<E: Endpoint + 'static> Endpoint for CountedEndpoint<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> poem::Result<Response> {
        let mut head = http::Request::builder().method(request.method()).uri(request.uri());
        if let Some(headers) = head.headers_mut() {
            headers.clone_from(request.headers());
        }
        if let (Some(extensions), Addr::SocketAddr(peer)) =
            (head.extensions_mut(), request.remote_addr().0.clone())
        {
            extensions.insert(peer);
        }
        let head = head.body(request).map_err(poem::error::InternalServerError)?;
        let Ok(counted) = self.0.clone().call(head).await;
        let (parts, mut response) = counted.into_parts();
        // The layer may only add a single header: the visitor cookie.
        for cookie in parts.headers.get_all(http::header::SET_COOKIE) {
            response.headers_mut().append(http::header::SET_COOKIE, cookie.clone());
        }
        Ok(response)
    }
}

impl<E> Clone for Inner<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Endpoint + 'static> Service<http::Request<Request>> for Inner<E> {
    type Response = http::Response<Response>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Request>) -> Self::Future {
        let inner = Arc::clone(&self.0);
        async move {
            // Convert errors to responses here, so that they can still be counted by status.
            let response = inner.get_response(request.into_body()).await;
            let mut counted = http::Response::new(());
            *counted.status_mut() = response.status();
            Ok(counted.map(|()| response))
        }
        .boxed()
    }
}
