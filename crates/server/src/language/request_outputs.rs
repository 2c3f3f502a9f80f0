//! The answers to one request: submitted, merged, metered, and cut short where they must be.
//!
//! A request may have several prompts, each with several choices; their pieces come out mixed, as
//! they are made. Dropping `Answers` cancels what is unfinished, which is what happens when the
//! client leaves. Invariant: after an error nothing more comes.

use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream, SelectAll};
use terrace_engine::text::{TextEvent, TextFinish, TextRequest, TextStream, TokenInfo};
use terrace_engine::{ChoiceCanceller, Error as EngineError, TokenId, TokenLogprobs};

use crate::api_error::ApiError;
use crate::language::sse::Source;
use crate::language::{RequestOptions, ServedModel, Usage};
use crate::middleware::RequestLog;
use crate::shutdown::CancelSignal;
use crate::state::AppState;
use crate::work::{TimeLimit, off_thread, within_limits};

pub struct Answers {
    pieces: SelectAll<BoxStream<'static, Piece>>,
    usage: Usage,
    prompts: Vec<Arc<[TokenId]>>,
    /// When the last tokens of each answer came; `None` before the first.
    last_tokens: Vec<Option<Instant>>,
    /// Whether an answer was ended from here; what still comes of it is not wanted.
    ended: Vec<bool>,
    /// One for each prompt.
    cancellers: Vec<ChoiceCanceller>,
    warnings: Vec<String>,
    unfinished: usize,
    time_limit: Option<TimeLimit>,
    cancel: CancelSignal,
    log: Arc<RequestLog>,
}

/// Some text of one answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Piece {
    /// Which prompt of the request is answered.
    pub prompt: usize,
    /// Which answer of the request this is: choices of the first prompt come first.
    pub answer: usize,
    pub text: String,
    /// The tokens that `text` is made of.
    pub tokens: Vec<TokenInfo>,
    /// Set on the answer's last piece.
    pub finish: Option<TextFinish>,
    /// On the first piece of a prompt, if asked.
    pub prompt_logprobs: Option<Vec<Option<TokenLogprobs>>>,
    /// On the first piece of a prompt: how many of its tokens were found in the prefix cache.
    pub cached_tokens: usize,
}

impl Answers {
    /// Hands the requests, which are alike but for their prompts, to the engine.
    pub async fn submit(
        state: &AppState,
        log: Arc<RequestLog>,
        model: Arc<ServedModel>,
        requests: Vec<TextRequest>,
        options: &RequestOptions,
    ) -> Result<Self, ApiError> {
        let choices = options.choices();
        let answers = options.check_choices(requests.len(), &state.config.limits)?;
        log.set_model(model.name());
        // What is too long by its bytes waits for nothing.
        let too_long = |error: EngineError| options.in_clients_words(error.into());
        let whole = requests.iter().filter(|request| request.truncate_prompt_tokens.is_none());
        let mut prompts = whole.map(|request| &request.prompt);
        prompts.try_for_each(|prompt| model.check_length(prompt)).map_err(too_long)?;
        let requests = within_limits(state, &log, guided(&model, requests)).await?;
        let grammar = requests.first().and_then(|request| request.grammar.as_ref());
        let warnings = grammar.map(|grammar| grammar.rule.warnings()).unwrap_or_default();
        let bytes = requests.iter().map(|request| request.prompt.text_bytes()).sum();
        let held = state.memory.for_prompt(bytes).await?;
        let streams = off_thread(move || {
            let _held = held;
            let submitted = requests.into_iter().map(|request| model.submit(request));
            Ok(submitted.collect::<Result<Vec<_>, _>>()?)
        })
        .await
        .map_err(|error| options.in_clients_words(error))?;
        let prompts = streams.iter().map(|stream| Arc::clone(stream.prompt_tokens())).collect();
        let cancellers = streams.iter().map(TextStream::canceller).collect();
        let sources = streams.into_iter().enumerate();
        let pieces = sources.map(|(prompt, stream)| pieces(prompt, choices, stream)).collect();
        Ok(Self { cancellers, warnings, ..Self::new(state, log, prompts, answers, pieces) })
    }

    fn new(
        state: &AppState,
        log: Arc<RequestLog>,
        prompts: Vec<Arc<[TokenId]>>,
        answers: usize,
        pieces: SelectAll<BoxStream<'static, Piece>>,
    ) -> Self {
        let prompt_tokens = prompts.iter().map(|prompt| prompt.len()).sum();
        log.add_prompt_tokens(prompt_tokens);
        Self {
            pieces,
            usage: Usage { prompt_tokens, ..Usage::default() },
            prompts,
            last_tokens: vec![None; answers],
            ended: vec![false; answers],
            cancellers: Vec::new(),
            warnings: Vec::new(),
            unfinished: answers,
            time_limit: TimeLimit::new(&state.config.limits, log.started),
            cancel: state.cancel.clone(),
            log,
        }
    }

    /// The tokens of each prompt.
    pub fn prompts(&self) -> &[Arc<[TokenId]>] {
        &self.prompts
    }

    /// What the request asked for and got in another way.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Ends an answer of which nothing more is wanted. No piece of it comes any more.
    pub fn end(&mut self, answer: usize) {
        self.ended[answer] = true;
        let choices = self.ended.len() / self.cancellers.len().max(1);
        if let Some(canceller) = self.cancellers.get(answer / choices.max(1)) {
            canceller.cancel(answer % choices);
        }
    }

    fn meter(&mut self, piece: Piece) -> Result<Piece, ApiError> {
        match &piece.finish {
            Some(TextFinish::Cancelled) => return Err(EngineError::Stopped.into()),
            Some(TextFinish::Forbidden) => return Err(ApiError::nothing_allowed()),
            Some(TextFinish::BadGrammar(fault)) => return Err(ApiError::bad_grammar(*fault)),
            Some(TextFinish::Failed) => {
                return Err(ApiError::internal("the step failed; the server's log says why"));
            }
            Some(_) => self.unfinished -= 1,
            None => {}
        }
        self.usage.cached_tokens += piece.cached_tokens;
        // The token that stopped the answer is not part of the text, but was made.
        let stop_tokens = usize::from(matches!(piece.finish, Some(TextFinish::StopToken(_))));
        let tokens = piece.tokens.len() + stop_tokens;
        if tokens > 0 {
            self.usage.new_tokens += tokens;
            self.log.add_new_tokens(tokens);
            let now = Instant::now();
            if let Some(last) = self.last_tokens[piece.answer].replace(now) {
                self.log.metrics.next_tokens(self.log.model(), tokens, now - last);
            }
        }
        Ok(piece)
    }
}

impl Source for Answers {
    type Piece = Piece;

    /// The next piece, or `None` when all answers have ended.
    async fn next(&mut self) -> Option<Result<Piece, ApiError>> {
        if self.pieces.is_empty() {
            return None;
        }
        let Self { cancel, time_limit, pieces, ended, unfinished, .. } = self;
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ApiError::stopping()),
            error = TimeLimit::reached(time_limit) => Err(error),
            piece = wanted(pieces, ended, unfinished) => match piece {
                Some(piece) => self.meter(piece),
                None if self.unfinished == 0 => return None,
                None => Err(EngineError::Stopped.into()),
            },
        };
        if outcome.is_err() {
            self.pieces.clear();
        }
        Some(outcome)
    }

    fn usage(&self) -> Usage {
        self.usage
    }
}

/// The next piece of an answer that was not ended from here.
async fn wanted(
    pieces: &mut SelectAll<BoxStream<'static, Piece>>,
    ended: &[bool],
    unfinished: &mut usize,
) -> Option<Piece> {
    loop {
        let piece = pieces.next().await?;
        if !ended[piece.answer] {
            return Some(piece);
        }
        *unfinished -= usize::from(piece.finish.is_some());
    }
}

/// Compiles the requests' grammar, which they have in common. Dropping the future ends it.
async fn guided(
    model: &Arc<ServedModel>,
    mut requests: Vec<TextRequest>,
) -> Result<Vec<TextRequest>, ApiError> {
    let Some(grammar) = requests.first().and_then(|request| request.grammar.as_ref()) else {
        return Ok(requests);
    };
    let maker = Arc::clone(model);
    off_thread(move || Ok(maker.prepare_guides()?)).await?;
    let guide = Arc::new(model.guide(grammar).await?);
    for request in &mut requests {
        request.guide = Some(Arc::clone(&guide));
    }
    Ok(requests)
}

fn pieces(prompt: usize, choices: usize, stream: TextStream) -> BoxStream<'static, Piece> {
    let next = move |(mut stream, is_first): (TextStream, bool)| async move {
        let TextEvent { choice, text, tokens, finish } = stream.next().await?;
        let logprobs = stream.prompt_logprobs().filter(|_| is_first);
        let cached_tokens = if is_first { stream.cached_tokens() } else { 0 };
        let piece = Piece {
            prompt,
            answer: prompt * choices + choice,
            text,
            tokens,
            finish,
            prompt_logprobs: logprobs.map(<[_]>::to_vec),
            cached_tokens,
        };
        Some((piece, (stream, false)))
    };
    stream::unfold((stream, true), next).boxed()
}

#[cfg(test)]
pub mod tests;
