//! The outputs of one request: submitted, merged, metered, and cut short where they must be.
//!
//! A request may have several prompts, each with several choices; their deltas come out mixed, as
//! they are decoded. Dropping `RequestOutputs` cancels what is unfinished, which is what happens
//! when the client leaves. Invariant: after an error nothing more comes.

use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream, SelectAll};
use terrace_engine::text::{TextEvent, TextFinish, TextRequest, TextStream, TokenInfo};
use terrace_engine::{ChoiceCanceller, Error as EngineError, TokenId, TokenLogprobs};

use crate::api_error::{ApiError, ApiResult};
use crate::app_state::AppState;
use crate::bounded_work::{TimeLimit, off_thread, within_limits};
use crate::kv_handles::{RecentResponse, RecentResponses};
use crate::language::sse::Source;
use crate::language::{Past, RequestOptions, ServedModel, Usage, UsedHandle};
use crate::middleware::RequestLog;
use crate::shutdown::CancelSignal;

pub struct RequestOutputs {
    deltas: SelectAll<BoxStream<'static, OutputDelta>>,
    usage: Usage,
    prompts: Vec<Arc<[TokenId]>>,
    /// When the last tokens of each output came; `None` before the first.
    last_tokens: Vec<Option<Instant>>,
    /// Whether an output was ended from here; what still comes of it is not wanted.
    ended: Vec<bool>,
    /// One for each prompt.
    cancellers: Vec<ChoiceCanceller>,
    warnings: Vec<String>,
    used_handle: Option<UsedHandle>,
    /// Where it is noted under which id it is sent, if it has one output.
    recent: Option<(Arc<RecentResponses>, RecentResponse)>,
    unfinished: usize,
    time_limit: Option<TimeLimit>,
    cancel: CancelSignal,
    log: Arc<RequestLog>,
}

/// Some text of one output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OutputDelta {
    /// Which prompt of the request it continues.
    pub prompt: usize,
    /// Which output of the request this is: choices of the first prompt come first.
    pub output: usize,
    pub text: String,
    /// The tokens that `text` is made of.
    pub tokens: Vec<TokenInfo>,
    /// Set on the output's last delta.
    pub finish: Option<TextFinish>,
    /// On the first delta of a prompt, if requested.
    pub prompt_logprobs: Option<Vec<Option<TokenLogprobs>>>,
    /// On the first delta of a prompt: how many of its tokens were found in the prefix cache.
    pub cached_tokens: usize,
}

impl RequestOutputs {
    /// Hands the requests, which are alike but for their prompts, to the engine.
    pub async fn submit(
        state: &AppState,
        log: Arc<RequestLog>,
        model: Arc<ServedModel>,
        requests: Vec<TextRequest>,
        options: &RequestOptions,
    ) -> ApiResult<Self> {
        let choices = options.choices();
        let outputs = options.check_choices(requests.len(), &state.config.limits)?;
        log.set_model(model.name());
        // What is too long by its bytes waits for nothing.
        let too_long = |error: EngineError| options.in_clients_words(error.into());
        let whole = requests.iter().filter(|request| request.truncate_prompt_tokens.is_none());
        let mut prompts = whole.map(|request| &request.prompt);
        prompts.try_for_each(|prompt| model.engine().check_length(prompt)).map_err(too_long)?;
        let mut requests = within_limits(state, &log, guided(&model, requests)).await?;
        let idle_ms = state.config.session_idle_seconds.saturating_mul(1000);
        for retention in requests.iter_mut().map(|request| &mut request.retention) {
            retention.ttl_ms = retention.ttl_ms.or(retention.session.as_ref().map(|_| idle_ms));
        }
        let grammar = requests.first().and_then(|request| request.grammar.as_ref());
        let warnings = grammar.map(|grammar| grammar.rule.warnings()).unwrap_or_default();
        let past = Past::find(state, &model, options)?;
        let past_id = past.as_ref().map(Past::id);
        let bytes = requests.iter().map(|request| request.prompt.text_bytes()).sum();
        let held = state.memory.for_prompt(bytes).await?;
        let served = Arc::clone(&model);
        let streams = off_thread(move || {
            let _held = held;
            let requests = match past {
                Some(past) => past.begin(&served, requests)?,
                None => requests,
            };
            let submitted = requests.into_iter().map(|request| served.engine().submit(request));
            Ok(submitted.collect::<Result<Vec<_>, _>>()?)
        })
        .await
        .map_err(|error| options.in_clients_words(error))?;
        let used_handle = past_id.map(|id| UsedHandle {
            handle: id.to_string(),
            crosses_arithmetic: streams.iter().any(TextStream::crosses_arithmetic),
        });
        let recent = (outputs == 1).then(|| {
            let (caller, model) = (options.caller, model.name().to_owned());
            let request = streams[0].request_id();
            (Arc::clone(&state.recent), RecentResponse { caller, model, request })
        });
        let prompts = streams.iter().map(|stream| Arc::clone(stream.prompt_tokens())).collect();
        let cancellers = streams.iter().map(TextStream::canceller).collect();
        let sources = streams.into_iter().enumerate();
        let deltas = sources.map(|(prompt, stream)| deltas(prompt, choices, stream)).collect();
        let outputs = Self::new(state, log, prompts, outputs, deltas);
        Ok(Self { cancellers, warnings, used_handle, recent, ..outputs })
    }

    fn new(
        state: &AppState,
        log: Arc<RequestLog>,
        prompts: Vec<Arc<[TokenId]>>,
        outputs: usize,
        deltas: SelectAll<BoxStream<'static, OutputDelta>>,
    ) -> Self {
        let prompt_tokens = prompts.iter().map(|prompt| prompt.len()).sum();
        log.add_prompt_tokens(prompt_tokens);
        Self {
            deltas,
            usage: Usage { prompt_tokens, ..Usage::default() },
            prompts,
            last_tokens: vec![None; outputs],
            ended: vec![false; outputs],
            cancellers: Vec::new(),
            warnings: Vec::new(),
            used_handle: None,
            recent: None,
            unfinished: outputs,
            time_limit: TimeLimit::new(&state.config.limits, log.started),
            cancel: state.cancel.clone(),
            log,
        }
    }

    /// The tokens of each prompt.
    pub fn prompts(&self) -> &[Arc<[TokenId]>] {
        &self.prompts
    }

    /// What the request got in another way than requested.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The handle that it goes on from.
    pub fn used_handle(&self) -> Option<&UsedHandle> {
        self.used_handle.as_ref()
    }

    /// Notes under which id the response is sent, so that a handle can be made of it.
    pub fn sent_as(&self, id: &str) {
        if let Some((recent, response)) = &self.recent {
            recent.insert(id, response.clone());
        }
    }

    /// Ends an output of which nothing more is wanted. No delta of it comes any more.
    pub fn end(&mut self, output: usize) {
        self.ended[output] = true;
        let choices = self.ended.len() / self.cancellers.len().max(1);
        if let Some(canceller) = self.cancellers.get(output / choices.max(1)) {
            canceller.cancel(output % choices);
        }
    }

    fn meter(&mut self, delta: OutputDelta) -> ApiResult<OutputDelta> {
        match &delta.finish {
            Some(TextFinish::Cancelled) => return Err(EngineError::Stopped.into()),
            Some(TextFinish::Failed(failure)) => return Err((*failure).into()),
            Some(_) => self.unfinished -= 1,
            None => {}
        }
        self.usage.cached_tokens += delta.cached_tokens;
        // The token that stopped the output is not part of the text, but was sampled.
        let stop_tokens = usize::from(matches!(delta.finish, Some(TextFinish::StopToken(_))));
        let tokens = delta.tokens.len() + stop_tokens;
        if tokens > 0 {
            self.usage.new_tokens += tokens;
            self.log.add_new_tokens(tokens);
            let now = Instant::now();
            if let Some(last) = self.last_tokens[delta.output].replace(now) {
                self.log.metrics.next_tokens(self.log.model(), tokens, now - last);
            }
        }
        Ok(delta)
    }
}

impl Source for RequestOutputs {
    type Delta = OutputDelta;

    /// The next delta, or `None` when all outputs have ended.
    async fn next(&mut self) -> Option<ApiResult<OutputDelta>> {
        if self.deltas.is_empty() {
            return None;
        }
        let Self { cancel, time_limit, deltas, ended, unfinished, .. } = self;
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ApiError::stopping()),
            error = TimeLimit::reached(time_limit) => Err(error),
            delta = wanted(deltas, ended, unfinished) => match delta {
                Some(delta) => self.meter(delta),
                None if self.unfinished == 0 => return None,
                None => Err(EngineError::Stopped.into()),
            },
        };
        if outcome.is_err() {
            self.deltas.clear();
        }
        Some(outcome)
    }

    fn usage(&self) -> Usage {
        self.usage
    }
}

/// The next delta of an output that was not ended from here.
async fn wanted(
    deltas: &mut SelectAll<BoxStream<'static, OutputDelta>>,
    ended: &[bool],
    unfinished: &mut usize,
) -> Option<OutputDelta> {
    loop {
        let delta = deltas.next().await?;
        if !ended[delta.output] {
            return Some(delta);
        }
        *unfinished -= usize::from(delta.finish.is_some());
    }
}

/// Compiles the requests' grammar, which they have in common. Dropping the future ends it.
async fn guided(
    model: &Arc<ServedModel>,
    mut requests: Vec<TextRequest>,
) -> ApiResult<Vec<TextRequest>> {
    let Some(grammar) = requests.first().and_then(|request| request.grammar.as_ref()) else {
        return Ok(requests);
    };
    let maker = Arc::clone(model);
    off_thread(move || Ok(maker.engine().prepare_guides()?)).await?;
    let guide = Arc::new(model.engine().guide(grammar).await?);
    for request in &mut requests {
        request.guide = Some(Arc::clone(&guide));
    }
    Ok(requests)
}

fn deltas(prompt: usize, choices: usize, stream: TextStream) -> BoxStream<'static, OutputDelta> {
    let next = move |(mut stream, is_first): (TextStream, bool)| async move {
        let TextEvent { choice, text, tokens, finish } = stream.next().await?;
        let logprobs = stream.prompt_logprobs().filter(|_| is_first);
        let cached_tokens = if is_first { stream.cached_tokens() } else { 0 };
        let delta = OutputDelta {
            prompt,
            output: prompt * choices + choice,
            text,
            tokens,
            finish,
            prompt_logprobs: logprobs.map(<[_]>::to_vec),
            cached_tokens,
        };
        Some((delta, (stream, false)))
    };
    stream::unfold((stream, true), next).boxed()
}

#[cfg(test)]
pub mod tests;
