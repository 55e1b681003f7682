//! A static file server on plain hyper, with no router: `files FOLDER`.

use std::fs;
use std::path::Path;
use std::pin::pin;

use counter_layer::{Identity, Rule, Rules};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use strangers::{BoxError, Counting, interrupted, listen};
use tower::ServiceBuilder;
use tower_http::services::ServeDir;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let folder = std::env::args().nth(1).ok_or("usage: files FOLDER")?;
    let counting = Counting::start().await?;
    // Downloads that exist at startup are counted by name, other files by folder.
    let mut rules = Rules::builder().rule(Rule::counter("downloads").pattern("/downloads/*"));
    for download in fs::read_dir(Path::new(&folder).join("downloads"))?.take(500) {
        let path = format!("/downloads/{}", download?.file_name().to_string_lossy());
        rules = rules.rule(Rule::counter(&path).pattern(&path));
    }
    let rules = rules
        .rule(Rule::counter("home").pattern("").pattern("/index.html"))
        .rule(Rule::counter("assets").pattern("/assets/*"))
        .rule(Rule::counter("styles").pattern("*.css"))
        .default_counter("rest")
        .build()?;
    let site = ServiceBuilder::new()
        .layer(counting.layer(Identity::peer())?.rules(rules))
        .service(ServeDir::new(folder));
    let (listener, graceful) = (listen().await?, GracefulShutdown::new());
    let mut end = pin!(interrupted());
    loop {
        let (client, peer) = tokio::select! {
            accepted = listener.accept() => accepted?,
            () = &mut end => break,
        };
        let site = ServiceBuilder::new()
            .map_request(move |mut request: http::Request<_>| {
                // The layer needs the peer address to identify visitors.
                request.extensions_mut().insert(peer);
                request
            })
            .service(site.clone());
        let server = Builder::new(TokioExecutor::new());
        let connection =
            server.serve_connection(TokioIo::new(client), TowerToHyperService::new(site)).into_owned();
        // We ignore errors, because clients may disconnect.
        tokio::spawn(graceful.watch(connection));
    }
    graceful.shutdown().await;
    counting.finish().await
}
