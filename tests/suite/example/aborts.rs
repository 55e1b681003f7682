//! Forum clients that disconnect: at any await point, or while a request is sent over the network.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use counter_core::MemoryStore;
use counter_core::unstable::sqlx::{SqlitePool, query_as};
use example_app::forum::{Forum, ForumError, MarkTarget, Member, Post};
use tempfile::TempDir;
use tests::http::get;
use tests::{RedisServer, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::program::Site;

/// Timeout of all steps.
const LIMIT: Duration = tests::LIMIT;

/// The summary counts of the forum, with a query for the rows that they should match.
const SUMMARY_QUERIES: [(&str, &str, &str); 7] = [
    ("member", "followers", "SELECT id, COUNT(*) FROM forum_mark WHERE kind = 'member' GROUP BY 1"),
    ("member", "posts", "SELECT author, COUNT(*) FROM forum_post GROUP BY 1"),
    ("group", "members", "SELECT id, COUNT(*) FROM forum_mark WHERE kind = 'group' GROUP BY 1"),
    ("group", "messages", "SELECT home, COUNT(*) FROM forum_message GROUP BY 1"),
    ("post", "likes", "SELECT id, COUNT(*) FROM forum_mark WHERE kind = 'post' GROUP BY 1"),
    ("post", "comments", "SELECT post, COUNT(*) FROM forum_comment GROUP BY 1"),
    ("message", "likes", "SELECT id, COUNT(*) FROM forum_mark WHERE kind = 'message' GROUP BY 1"),
];

#[tokio::test]
async fn a_forum_change_dropped_at_any_await_is_atomic() {
    let folder = TempDir::new().expect("a folder");
    let file = file_in(&folder);
    let forum = Forum::open(Some(&file), MemoryStore::new()).await.expect("a forum");
    let rows = SqlitePool::connect(&file).await.expect("a file");
    let mut finished = 0;
    for round in 0..120 {
        let (polls, on) = (round % 24, round / 24 % 2 == 0);
        for what in [MarkTarget::Member, MarkTarget::Group, MarkTarget::Post, MarkTarget::Message] {
            finished += usize::from(poll_up_to(forum.mark(what, 1, 2, on), polls).await);
        }
        finished += usize::from(poll_up_to(forum.publish(2, "A title", "A text"), polls).await);
        finished += usize::from(poll_up_to(forum.comment(1, 2, "A text"), polls).await);
        finished += usize::from(poll_up_to(forum.post_message(1, 2, "A text"), polls).await);
        compare(&rows, &format!("after {polls} polls")).await;
    }
    assert!((50..800).contains(&finished), "{finished} were finished, and the rest dropped");
    // The cached copies must follow, even though a dropped future cannot notify the cache.
    let (likes, followers) =
        (summary_count(&rows, "post", "likes").await, summary_count(&rows, "member", "followers").await);
    let follows = async || {
        let posts = forum.counts_of_posts(&[1]).await.expect("it can be read");
        let members = forum.counts_of_members(&[1]).await.expect("it can be read");
        (posts[0].of(Post::Likes), members[0].of(Member::Followers)) == (likes, followers)
    };
    until("the copies follow", LIMIT, follows).await;
}

#[tokio::test]
async fn a_forum_is_complete_after_an_interrupted_first_start() {
    let folder = TempDir::new().expect("a folder");
    for polls in (0..200).step_by(7) {
        let file = format!("sqlite:{}", folder.path().join(format!("{polls}.db")).display());
        poll_up_to(Forum::open(Some(&file), MemoryStore::new()), polls).await;
        // The aborted start might still lock the file for a moment.
        let mut forum = None;
        until("the file is free", LIMIT, async || {
            forum = Forum::open(Some(&file), MemoryStore::new()).await.ok();
            forum.is_some()
        })
        .await;
        let forum = forum.expect("it was opened");
        let found = (
            forum.all_members().await.expect("members").len(),
            forum.all_groups().await.expect("groups").len(),
            forum.all_posts().await.expect("posts").len(),
            forum.messages(1).await.expect("messages").len(),
        );
        assert_eq!(found, (12, 2, 3, 1), "after {polls} polls");
    }
}

#[tokio::test]
async fn a_read_dropped_at_any_await_keeps_an_in_memory_database() {
    let forum = Forum::open(None, MemoryStore::new()).await.expect("a forum");
    forum.mark(MarkTarget::Post, 1, 2, true).await.expect("it can be done");
    for polls in (0..10).cycle().take(300) {
        poll_up_to(forum.all_posts(), polls).await;
        poll_up_to(forum.mark(MarkTarget::Post, 2, 2, polls % 2 == 0), polls).await;
    }
    assert_eq!(forum.all_posts().await.expect("it can be read").len(), 3);
    assert_eq!(forum.counts_of_posts(&[1]).await.expect("it can be read")[0].of(Post::Likes), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aborted_page_requests_keep_an_in_memory_forum() {
    let site = Site::start(&[]).await;
    send_and_abort(site.address, 200, |_| {
        "GET /posts HTTP/1.1\r\nHost: site\r\nConnection: close\r\n\r\n".to_owned()
    })
    .await;
    for path in ["/posts", "/posts/1", "/members", "/groups/1"] {
        let response = get(site.address, path, &[]).await;
        assert_eq!(response.status, 200, "{path}: {}\n{}", response.body, site.process);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_match_the_rows_after_aborted_requests() {
    check_aborted(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_match_the_rows_after_aborted_requests_with_redis() {
    let redis = RedisServer::start();
    check_aborted(&["--redis", &redis.url()]).await;
}

async fn check_aborted(arguments: &[&str]) {
    let folder = TempDir::new().expect("a folder");
    let file = file_in(&folder);
    let arguments = [arguments, &["--database", &file, "--trust-hops", "1"]].concat();
    let site = Site::start(&arguments).await;
    send_and_abort(site.address, 800, |number| {
        let (path, form) = CHANGES[number % CHANGES.len()];
        // Clients have different addresses because of the limit on texts.
        let address = format!("X-Forwarded-For: 10.0.{}.{}", number / 250, number % 250);
        let form = format!("{form}{}", number % 12 + 1);
        let head = format!("POST {path} HTTP/1.1\r\nHost: site\r\nConnection: close\r\n{address}");
        let form_type = "Content-Type: application/x-www-form-urlencoded";
        format!("{head}\r\n{form_type}\r\nContent-Length: {}\r\n\r\n{form}", form.len())
    })
    .await;
    let rows = SqlitePool::connect(&file).await.expect("a file");
    compare(&rows, "after the aborts").await;
    let (likes, comments) =
        (summary_count(&rows, "post", "likes").await, summary_count(&rows, "post", "comments").await);
    assert!(comments > 0, "some arrived");
    let words = format!("Likes: {likes}. Comments: {comments}.");
    let follows = async || get(site.address, "/posts/1", &[]).await.body.contains(&words);
    until("the page says so", LIMIT, follows).await;
    compare(&rows, "when all requests have ended").await;
}

/// All requests that change the database. The member number is appended.
const CHANGES: [(&str, &str); 9] = [
    ("/posts/1/like", "member="),
    ("/posts/1/unlike", "member="),
    ("/members/1/follow", "member="),
    ("/members/1/unfollow", "member="),
    ("/groups/1/join", "member="),
    ("/messages/1/like", "member="),
    ("/posts", "title=a&text=b&member="),
    ("/posts/1/comments", "text=a&member="),
    ("/groups/1/messages", "text=a&member="),
];

/// Sends requests, eight at a time, and disconnects from four of five at a random time.
async fn send_and_abort(site: SocketAddr, requests: usize, request: impl Fn(usize) -> String) {
    let (random, mut tasks) = (RandomState::new(), JoinSet::new());
    for number in 0..requests {
        let (request, moment) = (request(number), random.hash_one(number) % 4000);
        tasks.spawn(async move {
            let mut connection = TcpStream::connect(site).await.expect("it listens");
            connection.write_all(request.as_bytes()).await.expect("it reads");
            if number % 5 == 0 {
                drop(connection.read_to_end(&mut Vec::new()).await);
            } else {
                sleep(Duration::from_micros(moment)).await;
            }
        });
        if tasks.len() >= 8 {
            tasks.join_next().await.expect("there are some").expect("it does not panic");
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("it does not panic");
    }
}

/// Polls a future up to `polls` times, and returns `true` if it completes.
async fn poll_up_to<T>(change: impl Future<Output = Result<T, ForumError>>, polls: usize) -> bool {
    let (mut change, mut left) = (pin!(change), polls);
    let done = poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        change.as_mut().poll(context).map(Some)
    });
    match done.await {
        Some(done) => done.map(drop).map(|()| true).expect("it can be done"),
        None => false,
    }
}

/// Compares counts and rows in a single snapshot.
async fn compare(rows: &SqlitePool, when: &str) {
    let mut snapshot = rows.begin().await.expect("it can be read");
    for (kind, field, expected_rows) in SUMMARY_QUERIES {
        let expected_rows: Vec<(i64, i64)> =
            query_as(expected_rows).fetch_all(&mut *snapshot).await.expect("rows");
        let counts = "SELECT CAST(entity AS INTEGER), value FROM access_entity \
                      WHERE kind = ? AND field = ? AND value <> 0";
        let counts = query_as(counts).bind(kind).bind(field);
        let counts: Vec<(i64, i64)> = counts.fetch_all(&mut *snapshot).await.expect("counts");
        let map = |rows: Vec<(i64, i64)>| rows.into_iter().collect::<BTreeMap<_, _>>();
        assert_eq!(map(counts), map(expected_rows), "{field} of {kind}s {when}");
    }
}

/// Returns the count of entity 1 of this kind.
async fn summary_count(rows: &SqlitePool, kind: &str, field: &str) -> i64 {
    let count = "SELECT value FROM access_entity WHERE kind = ? AND entity = '1' AND field = ?";
    let found: Option<(i64,)> =
        query_as(count).bind(kind).bind(field).fetch_optional(rows).await.expect("it can be read");
    found.map_or(0, |(value,)| value)
}

fn file_in(folder: &TempDir) -> String {
    format!("sqlite:{}", folder.path().join("forum.db").display())
}
