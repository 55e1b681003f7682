use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use counter_alert::{Alert, Deliver, DeliveryError, Message};

/// A receiver that stores messages, or rejects them while it is set to be unavailable.
#[derive(Clone, Debug, Default)]
pub(super) struct Inbox(Arc<State>);

#[derive(Debug, Default)]
struct State {
    messages: Mutex<Vec<Message>>,
    is_unavailable: AtomicBool,
}

impl Inbox {
    pub(super) fn receiver(&self) -> impl Deliver + use<> {
        let inbox = self.clone();
        move |message: Message| {
            let Self(state) = inbox.clone();
            async move {
                if state.is_unavailable.load(Ordering::Relaxed) {
                    return Err(DeliveryError::from("away"));
                }
                state.messages.lock().expect("no panic").push(message);
                Ok(())
            }
        }
    }

    pub(super) fn set_unavailable(&self, is_unavailable: bool) {
        self.0.is_unavailable.store(is_unavailable, Ordering::Relaxed);
    }

    pub(super) fn take(&self) -> Vec<Message> {
        std::mem::take(&mut *self.0.messages.lock().expect("no panic"))
    }

    pub(super) fn alerts(&self) -> Vec<Alert> {
        let alert = |message| match message {
            Message::Alert(alert) => alert,
            other => panic!("no alert: {other}"),
        };
        self.take().into_iter().map(alert).collect()
    }

    pub(super) fn strings(&self) -> Vec<String> {
        self.take().iter().map(ToString::to_string).collect()
    }
}
