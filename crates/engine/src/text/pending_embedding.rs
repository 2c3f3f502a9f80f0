//! An embedding on its way out of the engine.

use crate::error::Error;
use crate::generate::token_event::{FinishReason, TokenEvent};
use crate::handle::TokenReceiver;

/// Dropping it cancels the request.
pub struct PendingEmbedding {
    prompt_tokens: usize,
    events: TokenReceiver,
}

impl PendingEmbedding {
    pub(crate) fn new(prompt_tokens: usize, events: TokenReceiver) -> Self {
        PendingEmbedding { prompt_tokens, events }
    }

    pub fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// Waits for the model's last hidden state at the prompt's last token, as the model gives it.
    pub async fn wait(mut self) -> Result<Vec<f32>, Error> {
        let mut embedding = None;
        while let Some(event) = self.events.recv().await {
            match event {
                TokenEvent::Embedding(found) => embedding = Some(found),
                TokenEvent::Finished { reason: FinishReason::Cancelled, .. } => {
                    return Err(Error::Stopped);
                }
                TokenEvent::Finished { reason: FinishReason::Failed(_), .. } => break,
                _ => {}
            }
        }
        embedding.ok_or_else(|| Error::Step("the log says why".to_owned()))
    }
}
