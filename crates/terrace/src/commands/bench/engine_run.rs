//! Requests that an engine runs side by side, and when each of their tokens came.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use terrace_engine::{
    CacheMaker, EngineHandle, FinishReason, Priority, Request, RequestRetention, RequestedKvCache,
    SamplingParams, Task, TokenEvent, TokenId, TokenReceiver,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, yield_now};

/// An engine, and what makes the caches of its requests.
pub struct MeasuredEngine {
    pub handle: EngineHandle,
    pub caches: Arc<CacheMaker>,
}

pub struct EngineRun {
    start: Instant,
    receivers: Vec<TokenReceiver>,
    readers: Runtime,
}

impl EngineRun {
    /// Submits a greedy request for each prompt, to `new_tokens` and no other end.
    pub fn submit(
        engine: &MeasuredEngine,
        prompts: &[Vec<TokenId>],
        new_tokens: usize,
    ) -> Result<Self> {
        let request = |prompt: &Vec<TokenId>| {
            Ok(Request {
                prompt: prompt.clone(),
                task: Task::Generate(SamplingParams::greedy(new_tokens)),
                priority: Priority::default(),
                cache_salt: String::new(),
                retention: RequestRetention::default(),
                cache: engine.caches.make(&RequestedKvCache::default(), prompt, None, 0)?,
            })
        };
        let requests = prompts.iter().map(request).collect::<Result<Vec<_>>>()?;
        // One thread reads for all: a thread for each would take the engine's cores. Readers that
        // the engine has woken go before those that have more to read, so that times stay in order
        // even when this thread is late.
        let readers = Builder::new_current_thread()
            .global_queue_interval(1)
            .build()
            .context("cannot start the reading thread")?;
        let start = Instant::now();
        Ok(EngineRun { start, receivers: engine.handle.submit_all(requests)?, readers })
    }

    /// Waits for all tokens. Returns for each request when its tokens came, counted from their
    /// submission, which is one for all.
    pub fn token_times(self) -> Result<Vec<Vec<Duration>>> {
        let EngineRun { start, receivers, readers } = self;
        readers.block_on(async {
            let mut reading = JoinSet::new();
            for receiver in receivers {
                reading.spawn(read(receiver, start));
            }
            let mut times = Vec::new();
            while let Some(read) = reading.join_next().await {
                times.push(read.context("a reader failed")??);
            }
            Ok(times)
        })
    }
}

async fn read(mut receiver: TokenReceiver, start: Instant) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    while let Some(event) = receiver.recv().await {
        match event {
            TokenEvent::Token { .. } => {
                times.push(start.elapsed());
                yield_now().await;
            }
            TokenEvent::Finished { reason: FinishReason::Length, .. }
            | TokenEvent::CachedPrompt { .. }
            | TokenEvent::Prompt(_)
            | TokenEvent::Embedding(_)
            | TokenEvent::Replay { .. }
            | TokenEvent::Cache(_) => {}
            TokenEvent::Finished { reason, .. } => {
                bail!("a request ended early ({reason:?}); the log above says why")
            }
        }
    }
    Ok(times)
}
