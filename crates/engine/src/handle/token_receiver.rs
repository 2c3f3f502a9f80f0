//! Where the events of one request come out, on the caller's side.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;

use super::command::Command;
use super::engine_link::EngineLink;
use crate::generate::request::RequestId;
use crate::generate::token_event::{Failure, FinishReason, TokenEvent};

/// The events of one request. Dropping it cancels what is unfinished and frees its pages.
pub struct TokenReceiver {
    request_id: RequestId,
    events: UnboundedReceiver<TokenEvent>,
    link: Arc<EngineLink>,
    /// Choices whose last event has not come.
    unfinished: Vec<usize>,
}

impl TokenReceiver {
    pub(crate) fn new(
        request_id: RequestId,
        choices: usize,
        events: UnboundedReceiver<TokenEvent>,
        link: Arc<EngineLink>,
    ) -> Self {
        TokenReceiver { request_id, events, link, unfinished: (0..choices).collect() }
    }

    pub fn request_id(&self) -> RequestId {
        self.request_id
    }

    /// The next event, or `None` when every choice has finished. If the engine's thread dies,
    /// the choices that it leaves behind finish as failed.
    ///
    /// Nothing is lost when the future is dropped before it is ready.
    pub async fn recv(&mut self) -> Option<TokenEvent> {
        let event = self.events.recv().await;
        self.note(event)
    }

    /// As `recv`, for threads outside an async runtime.
    pub fn blocking_recv(&mut self) -> Option<TokenEvent> {
        let event = self.events.blocking_recv();
        self.note(event)
    }

    /// Ends one output; the others go on.
    pub fn cancel_choice(&self, choice: usize) {
        self.canceller().cancel(choice);
    }

    /// Ends single outputs, for who does not hold the receiver.
    pub fn canceller(&self) -> ChoiceCanceller {
        ChoiceCanceller { request_id: self.request_id, link: Arc::clone(&self.link) }
    }

    fn note(&mut self, event: Option<TokenEvent>) -> Option<TokenEvent> {
        match event {
            Some(event) => {
                if let TokenEvent::Finished { choice, .. } = event {
                    self.unfinished.retain(|&unfinished| unfinished != choice);
                }
                Some(event)
            }
            None if self.unfinished.is_empty() => None,
            None => {
                let choice = self.unfinished.remove(0);
                Some(TokenEvent::Finished { choice, reason: FinishReason::Failed(Failure::Step) })
            }
        }
    }
}

impl Drop for TokenReceiver {
    fn drop(&mut self) {
        if !self.unfinished.is_empty() {
            // An engine that has stopped holds no pages.
            let _ = self.link.send(Command::Cancel(self.request_id));
        }
    }
}

/// Ends single outputs of one request.
pub struct ChoiceCanceller {
    request_id: RequestId,
    link: Arc<EngineLink>,
}

impl ChoiceCanceller {
    /// Ends the output; its last event says that it was cancelled. The others go on.
    pub fn cancel(&self, choice: usize) {
        // An engine that has stopped makes no more tokens anyway.
        let _ = self.link.send(Command::CancelChoice(self.request_id, choice));
    }
}
