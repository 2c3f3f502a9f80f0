//! The outputs to one request as they are made.

use std::sync::Arc;

use crate::generate::cache_trace::CacheTrace;
use crate::generate::request::RequestId;
use crate::generate::token_event::{TokenEvent, TokenLogprobs};
use crate::handle::{ChoiceCanceller, TokenReceiver};
use crate::text::TextEvent;
use crate::text::text_outputs::TextOutputs;
use terrace_cache::TokenId;

/// Dropping it cancels what is unfinished and frees its pages.
pub struct TextStream {
    prompt: Arc<[TokenId]>,
    outputs: TextOutputs,
    receiver: TokenReceiver,
    crosses_arithmetic: bool,
}

impl TextStream {
    pub(crate) fn new(
        prompt: Arc<[TokenId]>,
        outputs: TextOutputs,
        receiver: TokenReceiver,
        crosses_arithmetic: bool,
    ) -> Self {
        TextStream { prompt, outputs, receiver, crosses_arithmetic }
    }

    pub fn request_id(&self) -> RequestId {
        self.receiver.request_id()
    }

    pub fn prompt_tokens(&self) -> &Arc<[TokenId]> {
        &self.prompt
    }

    /// Ends single choices, for who does not hold the stream.
    pub fn canceller(&self) -> ChoiceCanceller {
        self.receiver.canceller()
    }

    /// How many of the prompt's tokens were found in the prefix cache when the request was first
    /// admitted; 0 before the first event.
    pub fn cached_tokens(&self) -> usize {
        self.outputs.cached_tokens()
    }

    /// Whether it goes on from a handle that another class of arithmetic has computed.
    pub fn crosses_arithmetic(&self) -> bool {
        self.crosses_arithmetic
    }

    /// Log-probabilities of the prompt's tokens, once the first event has come, if asked.
    pub fn prompt_logprobs(&self) -> Option<&[Option<TokenLogprobs>]> {
        self.outputs.prompt_logprobs()
    }

    /// What the caches of the finished choices held, if asked.
    pub fn cache_traces(&self) -> &[CacheTrace] {
        self.outputs.cache_traces()
    }

    /// The next piece, or `None` when every choice has finished.
    ///
    /// Nothing is lost when the future is dropped before it is ready.
    pub async fn next(&mut self) -> Option<TextEvent> {
        while !self.outputs.is_finished() {
            let event = self.receiver.recv().await?;
            if let Some(event) = self.take(event) {
                return Some(event);
            }
        }
        None
    }

    /// As `next`, for threads outside an async runtime.
    pub fn next_blocking(&mut self) -> Option<TextEvent> {
        while !self.outputs.is_finished() {
            let event = self.receiver.blocking_recv()?;
            if let Some(event) = self.take(event) {
                return Some(event);
            }
        }
        None
    }

    fn take(&mut self, event: TokenEvent) -> Option<TextEvent> {
        let taken = self.outputs.take(event);
        if let Some(choice) = taken.ended {
            self.receiver.cancel_choice(choice);
        }
        taken.event
    }
}
