use crate::message::Message;
use serde_json::{Value, json};

/// The form of what a [`Webhook`](super::Webhook) sends.
///
/// Names of pages and values of labels come from requests: for chats they are in a block of code, where nothing is markup and
/// nobody is mentioned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WebhookBody {
    /// The [`Message`] as a JSON object, with its `text`, and its `html` if it is a report.
    #[default]
    Json,
    /// The text alone, such as for a mail gateway.
    Text,
    /// A JSON object with a `text`, for Slack, Mattermost, Rocket.Chat and Google Chat.
    Slack,
    /// A JSON object with a `content`, for Discord; at most 2,000 characters.
    Discord,
}

/// The number of characters that Discord takes.
const DISCORD: usize = 2000;

impl WebhookBody {
    /// Returns the type of the content and the content.
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
                let text: String = message.to_string().chars().take(DISCORD - 10).collect();
                json(json!({ "content": code(&text), "allowed_mentions": { "parse": [] } }))
            }
        }
    }
}

fn code(text: &str) -> String {
    format!("```\n{}\n```", text.trim_end().replace('`', "'"))
}
