//! The pages of the forum. There are no logins: who writes says who he is.

use std::error::Error;

use axum::Router;
use axum::extract::{Form, Path, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use counter_core::{Distinct, EntityCache, EntityCounts, UniqueStore};
use counter_layer::WindowLimitLayer;
use serde::Deserialize;

use super::{escaped, page};
use crate::forum::{Article, Forum, ForumError, Group, Marked, Member, Message, Named, Note, Post};

/// The pages of this forum. What adds a text goes through the limit.
pub(crate) fn router<S: EntityCache + UniqueStore>(forum: Forum<S>, limit: WindowLimitLayer) -> Router {
    let texts = Router::new()
        .route("/posts", post(publish::<S>))
        .route("/posts/{id}/comments", post(comment::<S>))
        .route("/groups/{id}/messages", post(tell::<S>))
        .route_layer(limit);
    let mut marks = Router::new();
    for (path, what, on) in [
        ("/posts/{id}/like", Marked::Post, true),
        ("/posts/{id}/unlike", Marked::Post, false),
        ("/messages/{id}/like", Marked::Message, true),
        ("/messages/{id}/unlike", Marked::Message, false),
        ("/members/{id}/follow", Marked::Member, true),
        ("/members/{id}/unfollow", Marked::Member, false),
        ("/groups/{id}/join", Marked::Group, true),
        ("/groups/{id}/leave", Marked::Group, false),
    ] {
        let mark = async move |State(forum): State<Forum<S>>, Path(id), Form(actor): Form<Actor>| {
            forum.mark(what, id, actor.member, on).await?;
            Ok::<_, Failure>(Redirect::to(&match what {
                Marked::Member => format!("/members/{id}"),
                Marked::Group => format!("/groups/{id}"),
                Marked::Post => format!("/posts/{id}"),
                Marked::Message => "/groups".to_owned(),
            }))
        };
        marks = marks.route(path, post(mark));
    }
    Router::new()
        .route("/posts", get(posts::<S>))
        .route("/posts/{id}", get(one_post::<S>))
        .route("/members", get(members::<S>))
        .route("/members/{id}", get(one_member::<S>))
        .route("/groups", get(groups::<S>))
        .route("/groups/{id}", get(one_group::<S>))
        .merge(texts)
        .merge(marks)
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

type Answer<T = Html<String>> = Result<T, Failure>;

async fn publish<S: EntityCache + UniqueStore>(
    State(forum): State<Forum<S>>,
    Form(new): Form<NewPost>,
) -> Answer<Redirect> {
    let id = forum.publish(new.member, &new.title, &new.text).await?;
    Ok(Redirect::to(&format!("/posts/{id}")))
}

async fn comment<S: EntityCache + UniqueStore>(
    State(forum): State<Forum<S>>,
    Path(post): Path<u32>,
    Form(new): Form<NewNote>,
) -> Answer<Redirect> {
    forum.comment(post, new.member, &new.text).await?;
    Ok(Redirect::to(&format!("/posts/{post}")))
}

async fn tell<S: EntityCache + UniqueStore>(
    State(forum): State<Forum<S>>,
    Path(group): Path<u32>,
    Form(new): Form<NewNote>,
) -> Answer<Redirect> {
    forum.tell(group, new.member, &new.text).await?;
    Ok(Redirect::to(&format!("/groups/{group}")))
}

async fn posts<S: EntityCache + UniqueStore>(State(forum): State<Forum<S>>) -> Answer {
    let posts = forum.all_posts().await?;
    let ids: Vec<_> = posts.iter().map(|post| post.id).collect();
    let counts = forum.counts_of_posts(&ids).await?;
    let items = posts.iter().zip(&counts).map(|(Article { id, title, author, .. }, counts)| {
        let (title, author) = (escaped(title), escaped(&author.name));
        format!("<li><a href=\"/posts/{id}\">{title}</a> by {author}. {}", of_post(counts))
    });
    let fields = "<input name=\"title\" required> <textarea name=\"text\" required></textarea>";
    let form = form("/posts", &forum.all_members().await?, fields);
    Ok(page("Posts", &format!("<ul>{}</ul>{form}", items.collect::<String>())))
}

async fn one_post<S: EntityCache + UniqueStore>(
    State(forum): State<Forum<S>>,
    Path(id): Path<u32>,
) -> Answer {
    let Article { title, text, author, .. } = forum.post(id).await?;
    let counts: String = forum.counts_of_posts(&[id]).await?.iter().map(of_post).collect();
    let readers = match forum.readers_of(id).await {
        Some(Distinct::Exact(readers)) => format!("Readers: {readers}."),
        Some(about) => format!("Readers: about {}.", about.items()),
        None => "Readers: not known now.".to_owned(),
    };
    let members = forum.all_members().await?;
    let marks = marks(&format!("/posts/{id}"), &members, ["like", "unlike"]);
    let comments: String =
        forum.comments(id).await?.iter().map(|note| format!("<li>{}", said(note))).collect();
    let comment = note_form(&format!("/posts/{id}/comments"), &members);
    let body = format!(
        "<p>{}<p>By <a href=\"/members/{}\">{}</a>.<p>{counts} {readers}{marks}<ul>{comments}</ul>{comment}",
        escaped(&text),
        author.id,
        escaped(&author.name),
    );
    Ok(page(&escaped(&title), &body))
}

async fn members<S: EntityCache + UniqueStore>(State(forum): State<Forum<S>>) -> Answer {
    let members = forum.all_members().await?;
    let ids: Vec<_> = members.iter().map(|member| member.id).collect();
    let counts = forum.counts_of_members(&ids).await?;
    let items = members.iter().zip(&counts).map(|(Named { id, name }, counts)| {
        format!("<li><a href=\"/members/{id}\">{}</a>. {}", escaped(name), of_member(counts))
    });
    Ok(page("Members", &format!("<ul>{}</ul>", items.collect::<String>())))
}

async fn one_member<S: EntityCache + UniqueStore>(
    State(forum): State<Forum<S>>,
    Path(id): Path<u32>,
) -> Answer {
    let Named { name, .. } = forum.member(id).await?;
    let counts: String = forum.counts_of_members(&[id]).await?.iter().map(of_member).collect();
    let marks = marks(&format!("/members/{id}"), &forum.all_members().await?, ["follow", "unfollow"]);
    Ok(page(&escaped(&name), &format!("<p>{counts}{marks}")))
}

async fn groups<S: EntityCache + UniqueStore>(State(forum): State<Forum<S>>) -> Answer {
    let groups = forum.all_groups().await?;
    let ids: Vec<_> = groups.iter().map(|group| group.id).collect();
    let counts = forum.counts_of_groups(&ids).await?;
    let items = groups.iter().zip(&counts).map(|(Named { id, name }, counts)| {
        format!("<li><a href=\"/groups/{id}\">{}</a>. {}", escaped(name), of_group(counts))
    });
    Ok(page("Groups", &format!("<ul>{}</ul>", items.collect::<String>())))
}

async fn one_group<S: EntityCache + UniqueStore>(
    State(forum): State<Forum<S>>,
    Path(id): Path<u32>,
) -> Answer {
    let Named { name, .. } = forum.group(id).await?;
    let counts: String = forum.counts_of_groups(&[id]).await?.iter().map(of_group).collect();
    let (members, messages) = (forum.all_members().await?, forum.messages(id).await?);
    let ids: Vec<_> = messages.iter().map(|message| message.id).collect();
    let likes = forum.counts_of_messages(&ids).await?;
    let items = messages.iter().zip(&likes).map(|(message, counts)| {
        let marks = marks(&format!("/messages/{}", message.id), &members, ["like", "unlike"]);
        format!("<li>{} Likes: {}.{marks}", said(message), counts.of(Message::Likes))
    });
    let (items, join) =
        (items.collect::<String>(), marks(&format!("/groups/{id}"), &members, ["join", "leave"]));
    let tell = note_form(&format!("/groups/{id}/messages"), &members);
    Ok(page(&escaped(&name), &format!("<p>{counts}{join}<ul>{items}</ul>{tell}")))
}

fn of_member(counts: &EntityCounts<Member>) -> String {
    format!("Followers: {}. Posts: {}.", counts.of(Member::Followers), counts.of(Member::Posts))
}

fn of_group(counts: &EntityCounts<Group>) -> String {
    format!("Members: {}. Messages: {}.", counts.of(Group::Members), counts.of(Group::Messages))
}

fn of_post(counts: &EntityCounts<Post>) -> String {
    let [views, likes, comments] = [Post::Views, Post::Likes, Post::Comments].map(|field| counts.of(field));
    format!("Views: {views}. Likes: {likes}. Comments: {comments}.")
}

fn said(Note { text, author, .. }: &Note) -> String {
    format!("{}: {}", escaped(&author.name), escaped(text))
}

/// Buttons that put a mark there, and take it away.
fn marks(of: &str, members: &[Named], verbs: [&str; 2]) -> String {
    let button = |verb| format!("<button formaction=\"{of}/{verb}\">{verb}</button> ");
    format!("<form method=\"post\">{} {}</form>", choice(members), verbs.map(button).concat())
}

fn note_form(action: &str, members: &[Named]) -> String {
    form(action, members, "<textarea name=\"text\" required></textarea>")
}

fn form(action: &str, members: &[Named], fields: &str) -> String {
    let choice = choice(members);
    format!("<form method=\"post\" action=\"{action}\">{choice} {fields} <button>Send</button></form>")
}

/// Who does it.
fn choice(members: &[Named]) -> String {
    let option = |Named { id, name }: &Named| format!("<option value=\"{id}\">{}", escaped(name));
    format!("<select name=\"member\">{}</select>", members.iter().map(option).collect::<String>())
}

/// A forum's error as an answer.
struct Failure(ForumError);

impl From<ForumError> for Failure {
    fn from(error: ForumError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match self.0 {
            ForumError::Nobody => StatusCode::NOT_FOUND,
            ForumError::NoText => StatusCode::UNPROCESSABLE_ENTITY,
            ForumError::Database(_) | ForumError::Count(_) => {
                tracing::error!(error = %self.0, cause = self.0.source(), "the forum");
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        (status, page(&self.0.to_string(), "")).into_response()
    }
}
