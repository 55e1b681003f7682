use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use counter_alert::{Alert, Deliver, DeliveryError, Message};

/// A receiver that stores messages, or rejects them while it is set to be unavailable.
#[derive(Clone, Debug, Default)]
pub(super) struct Inbox(Arc<Kept>);

#[derive(Debug, Default)]
struct Kept {
    messages: Mutex<Vec<Message>>,
    is_away: AtomicBool,
}

impl Inbox {
    pub(super) fn receiver(&self) -> impl Deliver + use<> {
        let inbox = self.clone();
        move |message: Message| {
            let Self(kept) = inbox.clone();
            async move {
                if kept.is_away.load(Ordering::Relaxed) {
                    return Err(DeliveryError::from("away"));
                }
                kept.messages.lock().expect("calm").push(message);
                Ok(())
            }
        }
    }

    pub(super) fn away(&self, is_away: bool) {
        self.0.is_away.store(is_away, Ordering::Relaxed);
    }

    pub(super) fn take(&self) -> Vec<Message> {
        std::mem::take(&mut *self.0.messages.lock().expect("calm"))
    }

    pub(super) fn alerts(&self) -> Vec<Alert> {
        let alert = |message| match message {
            Message::Alert(alert) => alert,
            other => panic!("no alert: {other}"),
        };
        self.take().into_iter().map(alert).collect()
    }

    pub(super) fn texts(&self) -> Vec<String> {
        self.take().iter().map(ToString::to_string).collect()
    }
}
