//! The forum in the example: counts, limits and repairs.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use counter_core::unstable::sqlx::{SqlitePool, query};
use tempfile::TempDir;
use tests::http::{Response, get, post};
use tests::{RedisServer, until};
use tokio::task::block_in_place;

use super::demo::noon;
use super::program::Site;
use crate::support::{BOT, BROWSER};

/// Timeout of all steps, except for those that wait for locks of a dead process, or for demo visitors.
const LIMIT: Duration = tests::LIMIT;

/// Timeout to wait for a kind of demo visitor. A member acts twice a minute on average.
const DEMO_LIMIT: Duration = Duration::from_secs(600);

#[tokio::test]
async fn views_and_readers_of_a_post_are_counted_with_the_requests() {
    check_views(&[]).await;
}

#[tokio::test]
async fn views_and_readers_are_also_counted_with_redis() {
    let redis = RedisServer::start();
    check_views(&["--redis", &redis.url()]).await;
    let readers = redis.strings(&["KEYS", "access:window:86400:(readers)post=1:*:tokens"]);
    assert!(!readers.is_empty(), "{:?}", redis.strings(&["KEYS", "*"]));
    for key in readers {
        // The set of readers expires with the latest day that is queried.
        assert!((1..=30 * 86_400).contains(&redis.int(&["TTL", &key])), "{key}");
    }
}

async fn check_views(arguments: &[&str]) {
    let site = Site::start(arguments).await;
    for (path, agent, status) in [
        ("/posts/1", BROWSER, 200),
        ("/posts/1", BROWSER, 200),
        ("/posts/1", OTHER_BROWSER, 200),
        ("/posts/1", BOT, 200),
        ("/posts/2", BROWSER, 200),
        ("/posts", BROWSER, 200),
        ("/posts/one", BROWSER, 400),
        ("/posts/77", BROWSER, 404),
    ] {
        assert_eq!(get(site.address, path, &[("User-Agent", agent)]).await.status, status, "{path}");
    }
    until_shown(&site, "/posts/1", "Views: 3. Likes: 0. Comments: 0. Readers: 2.").await;
    until_shown(&site, "/posts/2", "Views: 1. Likes: 0. Comments: 0. Readers: 1.").await;
    until_shown(&site, "/posts/3", "Views: 0. Likes: 0. Comments: 0. Readers: 0.").await;
}

#[tokio::test]
async fn likes_follows_and_joins_count_once_and_can_be_undone() {
    let site = Site::start(&[]).await;
    for (page, of, on, off, word) in [
        ("/posts/1", "/posts/1", "like", "unlike", "Likes"),
        ("/members/1", "/members/1", "follow", "unfollow", "Followers"),
        ("/groups/1", "/groups/1", "join", "leave", "Members"),
        ("/groups/1", "/messages/1", "like", "unlike", "Likes"),
    ] {
        for (member, verb, count) in
            [(2, off, 0), (2, on, 1), (2, on, 1), (3, on, 2), (2, off, 1), (2, off, 1), (3, off, 0)]
        {
            let response = send(&site, &format!("{of}/{verb}"), &format!("member={member}")).await;
            assert_eq!(response.status, 303, "{of}/{verb}: {}", response.body);
            let page_text = view_as_bot(&site, page).await;
            assert!(page_text.contains(&format!("{word}: {count}.")), "{of}/{verb} by {member}: {page_text}");
        }
        for (path, member) in [(of, 99), (&*of.replace('1', "99"), 2)] {
            let response = send(&site, &format!("{path}/{on}"), &format!("member={member}")).await;
            assert_eq!(response.status, 404, "{path}: {}", response.body);
        }
    }
}

#[tokio::test]
async fn posts_and_comments_are_escaped_and_counted() {
    let site = Site::start(&[]).await;
    let text = "member=5&title=%3Cb%3E&text=%3Ci%3E+%26";
    let published = send(&site, "/posts", text).await;
    assert_eq!((published.status, published.header("location")), (303, Some("/posts/4")));
    for (path, form, status) in [
        ("/posts/4/comments", "member=6&text=%3Cu%3E", 303),
        ("/posts/4/comments", "member=6&text=+", 422),
        ("/posts/99/comments", "member=6&text=a", 404),
        ("/groups/2/messages", "member=6&text=a", 303),
    ] {
        assert_eq!(send(&site, path, form).await.status, status, "{path} {form}");
    }
    let post = view_as_bot(&site, "/posts/4").await;
    for part in ["<h1>&lt;b&gt;</h1>", "<p>&lt;i&gt; &amp;<p>", "<li>Finn: &lt;u&gt;", "Comments: 1."] {
        assert!(post.contains(part), "{part}: {post}");
    }
    assert!(view_as_bot(&site, "/members/5").await.contains("Posts: 1."));
    assert!(view_as_bot(&site, "/groups").await.contains("Operators</a>. Members: 0. Messages: 1."));
}

#[tokio::test]
async fn texts_over_the_limit_are_rejected_with_retry_after() {
    let site = Site::start(&["--flush-interval", "0.05"]).await;
    let mut taken = 0;
    let rejected = loop {
        // A client that changes the user agent is still the same visitor.
        let agent = format!("Mozilla/5.0 ({taken})");
        let response =
            post(site.address, "/posts/1/comments", &[("User-Agent", &agent)], "member=2&text=a").await;
        if response.status != 303 {
            break response;
        }
        assert_eq!(response.header("ratelimit-policy"), Some("\"texts\";q=5;w=60"));
        taken += 1;
        assert!(taken <= 10, "nothing is refused");
    };
    // It is possible that the minute has ended in between.
    assert!(rejected.status == 429 && (5..=10).contains(&taken), "{taken} {rejected:?}");
    let seconds = rejected.header("retry-after").and_then(|seconds| seconds.parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| (1..=60).contains(&seconds)), "{rejected:?}");
    assert!(rejected.header("ratelimit").is_some_and(|left| left.starts_with("\"texts\";r=0;t=")));
    assert!(view_as_bot(&site, "/posts/1").await.contains(&format!("Comments: {taken}.")));
    assert_eq!(send(&site, "/posts/1/like", "member=2").await.status, 303, "a like is no text");
    let counted = async || {
        let total = get(site.address, "/admin/stats/api/total?counter=status:4xx&precision=86400", &[TOKEN]);
        total.await.body.contains("\"total\":1")
    };
    until("the refusal is counted", LIMIT, counted).await;
}

#[tokio::test]
async fn instances_with_the_same_secret_share_limits() {
    let redis = RedisServer::start();
    for (secrets, is_shared) in [(["1", "1"], true), (["1", "2"], false)] {
        redis.command(&["FLUSHALL"]);
        for secret in secrets {
            let site = Site::start(&["--redis", &redis.url(), "--secret", &secret.repeat(32)]).await;
            assert_eq!(send(&site, "/posts/1/comments", "member=2&text=a").await.status, 303);
        }
        let windows = redis.strings(&["KEYS", "access:window:60:(texts)visitor=@*"]);
        let start = |key: &String| key.rsplit(':').next().expect("a start").to_owned();
        let starts: BTreeSet<_> = windows.iter().map(start).collect();
        // If the minute ends in between, the instances have counted in different windows.
        let as_expected = if is_shared { windows.len() == starts.len() } else { windows.len() == 2 };
        assert!(!windows.is_empty() && as_expected, "{windows:?}");
    }
}

#[tokio::test]
async fn a_forum_in_a_file_keeps_the_counts_after_a_restart() {
    let folder = TempDir::new().expect("a folder");
    let file = file_in(folder.path());
    let mut site = Site::start(&["--database", &file]).await;
    get(site.address, "/posts/1", &[("User-Agent", BROWSER)]).await;
    send(&site, "/posts/1/like", "member=2").await;
    send(&site, "/posts/1/comments", "member=2&text=a").await;
    // The latest views are stored before the process ends.
    site.process.terminate();
    assert!(site.process.wait(LIMIT).await.success(), "{}", site.process);

    let site = Site::start(&["--database", &file]).await;
    let page_text = view_as_bot(&site, "/posts/1").await;
    assert!(page_text.contains("Views: 1. Likes: 1. Comments: 1."), "{page_text}");
    assert!(view_as_bot(&site, "/members/1").await.contains("Posts: 1."), "it was made once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_work_without_redis_and_a_recount_corrects_counts_and_copies() {
    let folder = TempDir::new().expect("a folder");
    let file = file_in(folder.path());
    let mut redis = RedisServer::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let arguments = ["--redis", &redis.url(), "--database", &file];
    let mut site = Site::start(&arguments).await;
    send(&site, "/posts/1/like", "member=2").await;
    let copy = |redis: &RedisServer| redis.bytes(&["HGET", "access:entity:post:1", "likes"]);
    let has_copy = async || {
        view_as_bot(&site, "/posts/1").await;
        copy(&redis).is_some()
    };
    until("there is a copy", LIMIT, has_copy).await;

    block_in_place(|| redis.kill());
    assert_eq!(send(&site, "/posts/1/like", "member=3").await.status, 303);
    let page_text = view_as_bot(&site, "/posts/1").await;
    assert!(page_text.contains("Likes: 2.") && page_text.contains("Readers: unknown."), "{page_text}");
    // We kill the process before it can update the cache, and then insert a like that is not counted.
    site.process.kill();
    let database = SqlitePool::connect(&file).await.expect("a file");
    let like = "INSERT INTO forum_mark (kind, id, member) VALUES ('post', 1, 4)";
    query(like).execute(&database).await.expect("a row");
    database.close().await;
    block_in_place(|| redis.restart());
    assert_eq!(copy(&redis).as_deref(), Some(&b"1 1"[..]), "the copy is out of date");

    let site = Site::start(&arguments).await;
    // If the process was killed in a recount, it takes a minute for the lock to expire.
    let recounted = Duration::from_secs(120);
    until("the copy is gone", recounted, async || copy(&redis).as_deref() != Some(b"1 1")).await;
    until_shown(&site, "/posts/1", "Likes: 3.").await;
}

#[tokio::test]
async fn demo_traffic_uses_the_forum() {
    let site = Site::start(&["--demo-traffic", "--utc-offset", &noon()]).await;
    let moves = async |path: &str, words: &[&str]| {
        let page = view_as_bot(&site, path).await;
        let count = |text: String| page.matches(&text).count();
        words.iter().any(|word| count(format!("{word}: ")) > count(format!("{word}: 0.")))
    };
    until("posts are viewed", DEMO_LIMIT, async || moves("/posts", &["Views"]).await).await;
    let deed = async || {
        moves("/posts", &["Likes", "Comments"]).await
            || moves("/members", &["Followers"]).await
            || moves("/groups/1", &["Members"]).await
    };
    until("members do something", DEMO_LIMIT, deed).await;
}

const OTHER_BROWSER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:141.0) Gecko/20100101 Firefox/141.0";

const TOKEN: (&str, &str) = ("Authorization", "Bearer a-token-for-tests");

fn file_in(folder: &Path) -> String {
    format!("sqlite:{}", folder.join("forum.db").display())
}

/// Fetches a page as a bot, because bots don't count as views.
async fn view_as_bot(site: &Site, path: &str) -> String {
    get(site.address, path, &[("User-Agent", BOT)]).await.body
}

async fn send(site: &Site, path: &str, form: &str) -> Response {
    post(site.address, path, &[("User-Agent", BROWSER)], form).await
}

async fn until_shown(site: &Site, path: &str, words: &str) {
    until(&format!("{path} says {words}"), LIMIT, async || view_as_bot(site, path).await.contains(words))
        .await;
}
