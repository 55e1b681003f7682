//! Read-only pages of the forum.

use axum::extract::{Path, State};
use counter_core::entity::EntityCounts;

use super::PageResult;
use crate::forum::{Article, Forum, Group, Member, Message, Named, Note, Post};
use crate::pages::{escaped, page};

pub(super) async fn posts(State(forum): State<Forum>) -> PageResult {
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

pub(super) async fn one_post(State(forum): State<Forum>, Path(id): Path<u32>) -> PageResult {
    let Article { title, text, author, .. } = forum.post(id).await?;
    let counts: String = forum.counts_of_posts(&[id]).await?.iter().map(of_post).collect();
    let readers = match forum.readers_of(id).await {
        Some(readers) => format!("Readers: {readers}."),
        None => "Readers: unknown.".to_owned(),
    };
    let members = forum.all_members().await?;
    let marks = marks(&format!("/posts/{id}"), &members, ["like", "unlike"]);
    let comments: String =
        forum.comments(id).await?.iter().map(|note| format!("<li>{}", message_text(note))).collect();
    let comment = note_form(&format!("/posts/{id}/comments"), &members);
    let body = format!(
        "<p>{}<p>By <a href=\"/members/{}\">{}</a>.<p>{counts} {readers}{marks}<ul>{comments}</ul>{comment}",
        escaped(&text),
        author.id,
        escaped(&author.name),
    );
    Ok(page(&escaped(&title), &body))
}

pub(super) async fn members(State(forum): State<Forum>) -> PageResult {
    let members = forum.all_members().await?;
    let ids: Vec<_> = members.iter().map(|member| member.id).collect();
    let counts = forum.counts_of_members(&ids).await?;
    let items = members.iter().zip(&counts).map(|(Named { id, name }, counts)| {
        format!("<li><a href=\"/members/{id}\">{}</a>. {}", escaped(name), of_member(counts))
    });
    Ok(page("Members", &format!("<ul>{}</ul>", items.collect::<String>())))
}

pub(super) async fn one_member(State(forum): State<Forum>, Path(id): Path<u32>) -> PageResult {
    let Named { name, .. } = forum.member(id).await?;
    let counts: String = forum.counts_of_members(&[id]).await?.iter().map(of_member).collect();
    let marks = marks(&format!("/members/{id}"), &forum.all_members().await?, ["follow", "unfollow"]);
    Ok(page(&escaped(&name), &format!("<p>{counts}{marks}")))
}

pub(super) async fn groups(State(forum): State<Forum>) -> PageResult {
    let groups = forum.all_groups().await?;
    let ids: Vec<_> = groups.iter().map(|group| group.id).collect();
    let counts = forum.counts_of_groups(&ids).await?;
    let items = groups.iter().zip(&counts).map(|(Named { id, name }, counts)| {
        format!("<li><a href=\"/groups/{id}\">{}</a>. {}", escaped(name), of_group(counts))
    });
    Ok(page("Groups", &format!("<ul>{}</ul>", items.collect::<String>())))
}

pub(super) async fn one_group(State(forum): State<Forum>, Path(id): Path<u32>) -> PageResult {
    let Named { name, .. } = forum.group(id).await?;
    let counts: String = forum.counts_of_groups(&[id]).await?.iter().map(of_group).collect();
    let (members, messages) = (forum.all_members().await?, forum.messages(id).await?);
    let ids: Vec<_> = messages.iter().map(|message| message.id).collect();
    let likes = forum.counts_of_messages(&ids).await?;
    let items = messages.iter().zip(&likes).map(|(message, counts)| {
        let marks = marks(&format!("/messages/{}", message.id), &members, ["like", "unlike"]);
        format!("<li>{} Likes: {}.{marks}", message_text(message), counts.of(Message::Likes))
    });
    let (items, join) =
        (items.collect::<String>(), marks(&format!("/groups/{id}"), &members, ["join", "leave"]));
    let message_form = note_form(&format!("/groups/{id}/messages"), &members);
    Ok(page(&escaped(&name), &format!("<p>{counts}{join}<ul>{items}</ul>{message_form}")))
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

fn message_text(Note { text, author, .. }: &Note) -> String {
    format!("{}: {}", escaped(&author.name), escaped(text))
}

/// Returns a form with two buttons, to set and to remove a mark such as a like.
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

/// Returns a field to select the acting member.
fn choice(members: &[Named]) -> String {
    let option = |Named { id, name }: &Named| format!("<option value=\"{id}\">{}", escaped(name));
    format!("<select name=\"member\">{}</select>", members.iter().map(option).collect::<String>())
}
