//! The outputs to one request, put together from the engine's events.
//!
//! Pure: it neither waits nor cancels, so that the synchronous engine and the streams share it.

use std::sync::Arc;

use terrace_model::Tokenizer;

use crate::generate::cache_trace::CacheTrace;
use crate::generate::token_event::{Failure, FinishReason, TokenEvent, TokenLogprobs};
use crate::text::{AssemblerConfig, PreparedRequest, TextAssembler, TextEvent, TokenInfo};
use terrace_cache::TokenId;

pub(crate) struct TextOutputs {
    choices: Vec<TextAssembler>,
    cached_tokens: usize,
    prompt_logprobs: Option<Vec<Option<TokenLogprobs>>>,
    cache_traces: Vec<CacheTrace>,
    /// Of each choice, where the ends of choices are logged.
    verbose_tokens: Option<Vec<usize>>,
}

/// What came of one of the engine's events.
#[derive(Default)]
pub(crate) struct Taken {
    /// What there is to show.
    pub event: Option<TextEvent>,
    /// A choice that its text has ended; the engine, which knows no text, must cancel it.
    pub ended: Option<usize>,
}

impl TextOutputs {
    pub fn new(prepared: &PreparedRequest, tokenizer: &Tokenizer) -> Self {
        let PreparedRequest { request, stops, include_stop_text, special, verbose } = prepared;
        let sampling = request.sampling();
        let is_guided = sampling.is_some_and(|sampling| sampling.guide.is_some());
        let stream = || match is_guided {
            // The grammar has read the first space too.
            true => tokenizer.stream(*special).with_first_space(),
            false => tokenizer.stream(*special),
        };
        let stops: Arc<[String]> = stops.as_slice().into();
        let stop_ids = sampling.map_or(&[][..], |sampling| &sampling.stop_ids);
        let stop_ids: Arc<[TokenId]> = stop_ids.into();
        let assembler = |choice| {
            TextAssembler::new(AssemblerConfig {
                choice,
                stream: stream(),
                stops: Arc::clone(&stops),
                include_stop_text: *include_stop_text,
                stop_ids: Arc::clone(&stop_ids),
            })
        };
        let choices = request.choices();
        TextOutputs {
            choices: (0..choices).map(assembler).collect(),
            cached_tokens: 0,
            prompt_logprobs: None,
            cache_traces: Vec::new(),
            verbose_tokens: verbose.then(|| vec![0; choices]),
        }
    }

    /// Of the prompt's tokens, those that were found in the prefix cache.
    pub fn cached_tokens(&self) -> usize {
        self.cached_tokens
    }

    /// Of the prompt's tokens, once they have come.
    pub fn prompt_logprobs(&self) -> Option<&[Option<TokenLogprobs>]> {
        self.prompt_logprobs.as_deref()
    }

    /// Of the choices that have ended, if asked.
    pub fn cache_traces(&self) -> &[CacheTrace] {
        &self.cache_traces
    }

    pub fn is_finished(&self) -> bool {
        self.choices.iter().all(TextAssembler::is_finished)
    }

    pub fn take(&mut self, event: TokenEvent) -> Taken {
        let taken = self.assemble(event);
        if let (Some(tokens), Some(event)) = (&mut self.verbose_tokens, &taken.event) {
            tokens[event.choice] += event.tokens.len();
            if let Some(finish) = &event.finish {
                let (choice, output_tokens) = (event.choice, tokens[event.choice]);
                tracing::info!(choice, output_tokens, ?finish, "a choice has finished");
            }
        }
        taken
    }

    fn assemble(&mut self, event: TokenEvent) -> Taken {
        match event {
            TokenEvent::CachedPrompt { tokens } => {
                self.cached_tokens = tokens;
                Taken::default()
            }
            TokenEvent::Prompt(logprobs) => {
                self.prompt_logprobs = Some(logprobs);
                Taken::default()
            }
            // Who asks for an embedding does not read text.
            TokenEvent::Embedding(_) | TokenEvent::Replay { .. } => Taken::default(),
            TokenEvent::Cache(trace) => {
                self.cache_traces.push(*trace);
                Taken::default()
            }
            TokenEvent::Token { choice, id, logprobs } => {
                self.take_token(choice, TokenInfo { id, logprobs })
            }
            TokenEvent::Finished { choice, reason } => {
                Taken { event: self.choices[choice].finish(reason), ended: None }
            }
        }
    }

    fn take_token(&mut self, choice: usize, token: TokenInfo) -> Taken {
        let output = &mut self.choices[choice];
        if output.is_finished() {
            return Taken::default();
        }
        let event = match output.push(token) {
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(%error, "an output ends because its token has no text");
                output.finish(FinishReason::Failed(Failure::Step))
            }
        };
        let ended = event.as_ref().is_some_and(|event| event.finish.is_some());
        Taken { event, ended: ended.then_some(choice) }
    }
}
