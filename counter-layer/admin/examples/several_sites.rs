//! Several sites on one dashboard. Each site counts into its own store; the dashboard adds them up.
//!
//! ```sh
//! cargo run -p counter-admin --example several_sites
//! curl http://127.0.0.1:3000/shop
//! curl http://127.0.0.1:3000/blog
//! curl 'http://127.0.0.1:3000/stats/api/lifetimes?counter=hits'
//! curl 'http://127.0.0.1:3000/stats/api/lifetimes?counter=hits&site=shop'
//! ```
//!
//! A second later, the last two commands print a total of 2 for all sites, and of 1 for the shop. The dashboard
//! is at `/stats`, with both sites side by side.

#![expect(clippy::print_stdout, reason = "prints the address for the user")]

use std::env::var;
use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use counter_admin::Access;
use counter_core::fleet::Fleet;
use counter_core::{Counters, MemoryStore};
use counter_layer::AccessCounterLayer;
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // The sites are usually separate processes, each with a `RedisStore`.
    let (shop_store, blog_store) = (MemoryStore::new(), MemoryStore::new());
    let shop = Counters::builder(shop_store.clone()).build()?;
    let blog = Counters::builder(blog_store.clone()).build()?;
    let app = Router::new()
        .route("/shop", get(async || "a shop\n").layer(AccessCounterLayer::new(shop.recorder())))
        .route("/blog", get(async || "a blog\n").layer(AccessCounterLayer::new(blog.recorder())));

    // The dashboard only reads the stores of the sites. Its own store contains sessions and notes. If a site
    // can't be read, the dashboard shows the others, and says so.
    let fleet = Fleet::reader(MemoryStore::new(), "shop", shop_store).site("blog", blog_store)?;
    let stats = Counters::builder(fleet).build()?.stats();
    // Open access, because this only listens on the loopback interface.
    let app = app
        .nest_service("/stats", counter_admin::router(stats, Access::open()))
        .into_make_service_with_connect_info::<SocketAddr>();

    let upkeep = [shop.spawn(), blog.spawn()];
    let listener = TcpListener::bind(var("LISTEN").as_deref().unwrap_or("127.0.0.1:3000")).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(async { _ = ctrl_c().await }).await?;
    for upkeep in upkeep {
        upkeep.stop().await?;
    }
    Ok(())
}
