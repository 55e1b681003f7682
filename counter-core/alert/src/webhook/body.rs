use crate::message::Message;
use serde_json::{Value, json};

/// The body format of a [`Webhook`](super::Webhook).
///
/// Page names and label values come from requests, and thus might contain markup or mentions. For chats, we
/// put the text into a code block to disable both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WebhookBody {
    /// A JSON object: the [`Message`] with a `text`, and also an `html` if it is a report.
    #[default]
    Json,
    /// Just the text, e.g. for a mail gateway.
    Text,
    /// A JSON object with a `text`, for Slack, Mattermost, Rocket.Chat and Google Chat.
    Slack,
    /// A JSON object with a `content`, for Discord; up to 2,000 characters.
    Discord,
}

/// The maximum length of a Discord message, in characters.
const MAX_DISCORD_CHARS: usize = 2000;

impl WebhookBody {
    /// Returns the content type and the body.
    pub(super) fn write(self, message: &Message) -> (&'static str, Vec<u8>) {
        let json = |value: Value| ("application/json", value.to_string().into_bytes());
        match self {
            Self::Json => {
                let mut value = serde_json::to_value(message).unwrap_or_else(|_| json!({}));
                value["text"] = message.to_string().into();
                if let Message::Report(report) = message {
                    value["html"] = report.html().into();
                }
                json(value)
            }
            Self::Text => ("text/plain; charset=utf-8", message.to_string().into_bytes()),
            Self::Slack => {
                let text =
                    message.to_string().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                json(json!({ "text": code(&text) }))
            }
            Self::Discord => {
                let text: String = message.to_string().chars().take(MAX_DISCORD_CHARS - 10).collect();
                json(json!({ "content": code(&text), "allowed_mentions": { "parse": [] } }))
            }
        }
    }
}

fn code(text: &str) -> String {
    format!("```\n{}\n```", text.trim_end().replace('`', "'"))
}
