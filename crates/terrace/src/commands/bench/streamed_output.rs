//! One streamed completion and the times at which its text came.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::json;
use terrace_engine::TokenId;

use super::completion_event::CompletionEvent;
use super::event_stream::EventStream;
use super::service::Service;

#[derive(Clone, Debug)]
pub struct StreamedOutput {
    /// When the request was sent, after the measurement's start.
    pub sent: Duration,
    /// When each event with text came, after the measurement's start; at least one.
    pub events: Vec<Duration>,
    /// New tokens, as the server counted them.
    pub tokens: usize,
}

impl StreamedOutput {
    /// Asks for exactly `new_tokens` after the prompt, the most probable each time. Fewer are an
    /// error: the server does not know `ignore_eos`, and outputs could not be compared.
    pub async fn get(
        service: &Service,
        prompt: Vec<TokenId>,
        new_tokens: usize,
        start: Instant,
    ) -> Result<Self> {
        let body = json!({
            "model": service.model,
            "prompt": prompt,
            "max_tokens": new_tokens,
            "ignore_eos": true,
            "temperature": 0,
            // A model's presets may have another, and then tokens are sampled in a slower way.
            "repetition_penalty": 1,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        let sent = start.elapsed();
        let path = service.completions_path();
        let mut stream = EventStream::post(service.address, &path, body.to_string()).await?;
        let (mut events, mut tokens) = (Vec::new(), 0);
        while let Some(data) = stream.next().await? {
            match CompletionEvent::parse(&data)? {
                CompletionEvent::Text => events.push(start.elapsed()),
                CompletionEvent::Usage { completion_tokens } => tokens = completion_tokens,
                CompletionEvent::Empty => {}
                CompletionEvent::Done if tokens != new_tokens => {
                    bail!("an output had {tokens} tokens, {new_tokens} were requested")
                }
                CompletionEvent::Done if events.is_empty() => bail!("an output had no text"),
                CompletionEvent::Done => return Ok(StreamedOutput { sent, events, tokens }),
            }
        }
        bail!("a stream ended without [DONE]")
    }
}
