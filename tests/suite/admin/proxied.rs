//! The admin router mounted at different paths, with an nginx that strips a path prefix.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::routing::get as route;
use counter_admin::{Access, Options};
use counter_core::{Counters, MemoryStore};
use counter_layer::{Address, Forwarded, Identity};
use tests::Nginx;
use tests::http::{Response, get, post};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, block_in_place};

use super::site::send;

const TOKEN: &str = "a-token-for-tests";

/// An application on a free port, which is stopped on drop.
struct Application {
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl Application {
    async fn start(app: Router) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        let server = tokio::spawn(async { axum::serve(listener, app).await.expect("it serves") });
        Self { address, server }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn router(access: Access, options: Options) -> Router {
    let mut counters = Counters::builder(MemoryStore::new()).build().expect("the defaults are fine");
    counters.recorder().record(counters.recorder().counter("hits"), None);
    counters.flush().await.expect("memory takes all");
    counter_admin::router_with(counters.stats(), access, options)
}

fn bearer() -> Access {
    Access::bearer(TOKEN).expect("a token")
}

fn local_proxies() -> Address {
    let local = "127.0.0.0/8".parse().expect("a network");
    Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_networks([local])
}

/// Serves the application at `/stats/`, as in the guide.
fn nginx(pass: &str, more: &str) -> Nginx {
    let location = format!(
        "location /stats/ {{ proxy_pass {pass}; proxy_http_version 1.1;\n\
         proxy_set_header Host $http_host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n{more} }}"
    );
    block_in_place(|| Nginx::start(&location))
}

/// Returns the unescaped values of an attribute in a page.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<String> {
    let opening = format!(" {attribute}=\"");
    let values: Vec<&'a str> =
        page.split(&opening).skip(1).filter_map(|rest| rest.split('"').next()).collect();
    values.into_iter().map(|value| value.replace("&#38;", "&").replace("&amp;", "&")).collect()
}

fn cookie(response: &Response) -> (String, String) {
    let cookie = response.header("set-cookie").expect("a session");
    let (pair, attributes) = cookie.split_once("; ").expect("attributes");
    (pair.to_owned(), attributes.to_owned())
}

/// Follows all links like a browser.
async fn follow_links(site: SocketAddr) {
    let origin = format!("http://{site}");
    let login_page = get(site, "/stats/counter?counter=hits", &[("accept", "text/html")]).await;
    assert_eq!(
        (login_page.status, values(&login_page.body, "action")),
        (401, vec!["/stats/login".to_owned()])
    );
    let to = values(&login_page.body, "value").concat();
    let form = format!("token={TOKEN}&to={}", super::site::encode(&to));
    let response = post(site, "/stats/login", &[("origin", &origin)], &form).await;
    assert_eq!(
        (response.status, response.header("location")),
        (303, Some("/stats/counter?counter=hits")),
        "{}",
        response.body
    );
    assert_eq!(cookie(&response).1, "Path=/stats; HttpOnly; SameSite=Lax");

    let link = get(site, &format!("/stats/?token={TOKEN}&q=a"), &[]).await;
    assert_eq!((link.status, link.header("location")), (303, Some("/stats/?q=a")));
    let (session, attributes) = cookie(&link);
    assert_eq!(attributes, "Path=/stats; HttpOnly; SameSite=Lax");
    let session = [("cookie", session.as_str())];

    let page = get(site, "/stats/", &session).await;
    assert_eq!(page.status, 200, "{}", page.body);
    let mut followed = 0;
    for attribute in ["href", "src", "action", "data-address", "data-parts"] {
        for address in values(&page.body, attribute) {
            if address.starts_with("data:") || address.starts_with('#') {
                continue;
            }
            assert!(address.starts_with("/stats/"), "{address}");
            if attribute == "action" {
                continue;
            }
            let response = get(site, &address, &session).await;
            assert_eq!(response.status, 200, "{address}: {}", response.body);
            followed += 1;
        }
    }
    assert!(followed > 10, "{followed} addresses");
    let described = get(site, "/stats/api/openapi.json", &session).await;
    assert!(described.body.contains(r#""servers":[{"url":"/stats"}]"#), "{}", described.body);
    let index = get(site, "/stats/api", &session).await;
    assert!(index.body.contains(r#""/stats/api/ledger""#), "{}", index.body);
    let out = post(site, "/stats/logout", &[("origin", &origin), session[0]], "").await;
    assert_eq!(
        (out.status, out.header("set-cookie").is_some_and(|set| set.contains("Path=/stats;"))),
        (200, true)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configured_path_is_in_all_links_redirects_and_cookies() {
    let options = || Options::new().public_path("/stats").expect("a path");
    let nested = Router::new().nest_service("/admin/stats", router(bearer(), options()).await);
    let application = Application::start(nested).await;
    follow_links(nginx(&format!("http://{}/admin/stats/", application.address), "").address()).await;
    // On a separate port, with a client that sends a false prefix.
    let application = Application::start(router(bearer(), options()).await).await;
    let proxy = nginx(&format!("http://{}/", application.address), "");
    follow_links(proxy.address()).await;
    let claimed = [("x-forwarded-prefix", "/other"), ("accept", "text/html")];
    let login_page = get(proxy.address(), "/stats/", &claimed).await;
    assert_eq!(values(&login_page.body, "action"), ["/stats/login"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefix_from_a_trusted_proxy_is_in_all_links_redirects_and_cookies() {
    let prefix = "proxy_set_header X-Forwarded-Prefix /stats;";
    let hop = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
    for clients in [local_proxies(), hop] {
        let access = bearer().clients(clients).forwarded_prefix();
        let application = Application::start(router(access, Options::new()).await).await;
        let proxy = nginx(&format!("http://{}/", application.address), prefix);
        follow_links(proxy.address()).await;
        // The proxy replaces the prefix that is sent by the client.
        let claimed = [("x-forwarded-prefix", "/other"), ("accept", "text/html")];
        let login_page = get(proxy.address(), "/stats/", &claimed).await;
        assert_eq!(values(&login_page.body, "action"), ["/stats/login"]);
    }
    // The prefix is prepended to the mount path.
    let access = bearer().clients(local_proxies()).forwarded_prefix();
    let nested = Router::new().nest_service("/numbers", router(access, Options::new()).await);
    let application = Application::start(nested).await;
    let proxy = nginx(&format!("http://{}/", application.address), prefix);
    let login_page = get(proxy.address(), "/stats/numbers/", &[("accept", "text/html")]).await;
    assert_eq!(values(&login_page.body, "action"), ["/stats/numbers/login"]);
}

#[tokio::test]
async fn a_prefix_is_only_accepted_from_trusted_proxies_and_if_it_is_a_path() {
    let other_proxies = "192.0.2.0/24".parse().expect("a network");
    let other_proxies = Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_networks([other_proxies]);
    let hop = || Identity::forwarded(Forwarded::X_FORWARDED_FOR).trusted_hops(1);
    let trusted = || bearer().clients(local_proxies()).forwarded_prefix();
    let fetch = async |access: Access, headers: &[(&str, &str)]| {
        let application = Application::start(router(access, Options::new()).await).await;
        let headers = [headers, &[("accept", "text/html")]].concat();
        values(&get(application.address, "/", &headers).await.body, "action").concat()
    };
    let sent_prefix = ("x-forwarded-prefix", "/stats");
    assert_eq!(fetch(trusted(), &[sent_prefix]).await, "/stats/login");
    for access in [
        bearer(),
        bearer().forwarded_prefix(),
        bearer().clients(local_proxies()),
        bearer().clients(other_proxies).forwarded_prefix(),
        bearer().clients(hop()).forwarded_prefix(),
        bearer().clients(Identity::peer()).forwarded_prefix(),
    ] {
        assert_eq!(fetch(access.clone(), &[sent_prefix]).await, "/login", "{access:?}");
    }
    for value in ["//host", "/\\host", "stats", "https://host/", "/a?b", "/a;b", "/a, /b", "/../a", ""] {
        assert_eq!(fetch(trusted(), &[("x-forwarded-prefix", value)]).await, "/login", "{value}");
    }
    assert_eq!(fetch(trusted(), &[sent_prefix, sent_prefix]).await, "/login", "two of them");
}

#[tokio::test]
async fn the_overview_is_served_with_and_without_a_slash_at_any_mount_point() {
    let admin = router(Access::open(), Options::new()).await;
    let pages = || Router::new().route("/articles", route(async || "an article"));
    for (name, mounted, paths, mount) in [
        ("nest", pages().nest("/admin/stats", admin.clone()), &["/admin/stats"][..], "/admin/stats"),
        (
            "nest_service",
            pages().nest_service("/admin/stats", admin.clone()),
            &["/admin/stats", "/admin/stats/"],
            "/admin/stats",
        ),
        ("merge", pages().merge(admin.clone()), &["/"], ""),
        ("alone", admin.clone(), &["/"], ""),
    ] {
        for path in paths {
            let page = send(&mounted, path, None).await;
            assert_eq!(page.status, 200, "{name}: {path}");
            let style = format!("rel=\"stylesheet\" href=\"{mount}/assets/");
            assert!(page.body.contains(&style), "{name}: {path}: {}", page.body);
        }
        let style = send(&mounted, &format!("{mount}/assets/0/style.css"), None).await;
        assert_eq!(style.status, 200, "{name}");
    }
}
