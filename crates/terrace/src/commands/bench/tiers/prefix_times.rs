//! The times to first token of prompts whose prefix is in a known place.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use terrace_engine::{
    Priority, Request, RequestRetention, RequestedKvCache, SamplingParams, Task, TokenEvent,
    TokenId,
};

use crate::commands::bench::engine_run::MeasuredEngine;
use crate::commands::bench::random_prompts::RandomPrompts;

/// How long pages may take to leave the device before something is wrong.
const QUIET_WITHIN: Duration = Duration::from_secs(60);

pub struct PrefixTimes<'e> {
    engine: &'e MeasuredEngine,
    prompts: &'e mut RandomPrompts,
    prefix_tokens: usize,
    /// All tokens that the device has pages for.
    longest: usize,
}

pub struct FirstToken {
    pub ttft_ms: f64,
    pub cached_tokens: usize,
}

impl<'e> PrefixTimes<'e> {
    pub fn new(
        engine: &'e MeasuredEngine,
        prompts: &'e mut RandomPrompts,
        prefix_tokens: usize,
        longest: usize,
    ) -> Self {
        PrefixTimes { engine, prompts, prefix_tokens, longest }
    }

    pub fn warm_up(&mut self) -> Result<()> {
        let prefix = self.new_prefix();
        self.computed(&prefix, 1)?;
        self.from_host(&prefix, 1)?;
        Ok(())
    }

    pub fn new_prefix(&mut self) -> Vec<TokenId> {
        self.prompts.next(self.prefix_tokens)
    }

    /// The time where nothing is known.
    pub fn computed(&mut self, prefix: &[TokenId], new_tokens: usize) -> Result<f64> {
        let first = self.ask(prefix, new_tokens)?;
        match first.cached_tokens {
            0 => Ok(first.ttft_ms),
            cached => bail!("{cached} tokens of a new prompt were known"),
        }
    }

    /// The time where the prefix has just been used.
    pub fn from_device(&mut self, prefix: &[TokenId], new_tokens: usize) -> Result<f64> {
        let promoted = self.engine.handle.stats().pages_promoted;
        let first = self.ask(prefix, new_tokens)?;
        self.check_hit(&first)?;
        match self.engine.handle.stats().pages_promoted - promoted {
            0 => Ok(first.ttft_ms),
            pages => bail!("{pages} pages had left the device"),
        }
    }

    /// The time where another prompt has pushed all of it out.
    pub fn from_host(&mut self, prefix: &[TokenId], new_tokens: usize) -> Result<f64> {
        // Until then its pages are copied ahead of need.
        self.wait_until_quiet()?;
        let other = self.prompts.next(self.longest);
        first_token_ms(self.engine, other)?;
        self.wait_until_quiet()?;
        let promoted = self.engine.handle.stats().pages_promoted;
        let first = self.ask(prefix, new_tokens)?;
        self.check_hit(&first)?;
        match self.engine.handle.stats().pages_promoted - promoted {
            0 => bail!("no page had left the device; give more --prefix-tokens"),
            _ => Ok(first.ttft_ms),
        }
    }

    fn ask(&mut self, prefix: &[TokenId], new_tokens: usize) -> Result<FirstToken> {
        let prompt = [prefix, &self.prompts.next(new_tokens)].concat();
        first_token_ms(self.engine, prompt)
    }

    fn check_hit(&self, first: &FirstToken) -> Result<()> {
        let (cached, prefix) = (first.cached_tokens, self.prefix_tokens);
        // Its last page may not be full.
        if cached < prefix - prefix / 16 {
            bail!("{cached} of {prefix} tokens of a prefix were found; give it a larger host tier");
        }
        Ok(())
    }

    /// Waits until nothing is copied any more.
    fn wait_until_quiet(&self) -> Result<()> {
        let start = Instant::now();
        let mut before = None;
        while start.elapsed() < QUIET_WITHIN {
            std::thread::sleep(Duration::from_millis(100));
            let stats = self.engine.handle.stats();
            let now = (stats.pages_demoted, stats.tier_pages_written);
            if before == Some(now) {
                return Ok(());
            }
            before = Some(now);
        }
        bail!("pages still leave the device after {} s", QUIET_WITHIN.as_secs())
    }
}

/// Asks for one token.
pub fn first_token_ms(engine: &MeasuredEngine, prompt: Vec<TokenId>) -> Result<FirstToken> {
    let cache = engine.caches.make(&RequestedKvCache::default(), &prompt, None, 0)?;
    let request = Request {
        prompt,
        task: Task::Generate(SamplingParams::greedy(1)),
        priority: Priority::default(),
        cache_salt: String::new(),
        cache,
        retention: RequestRetention::default(),
    };
    let start = Instant::now();
    let mut events = engine.handle.submit(request)?;
    let (mut ttft_ms, mut cached_tokens) = (None, 0);
    while let Some(event) = events.blocking_recv() {
        match event {
            TokenEvent::Token { .. } => ttft_ms = Some(start.elapsed().as_secs_f64() * 1e3),
            TokenEvent::CachedPrompt { tokens } => cached_tokens = tokens,
            _ => {}
        }
    }
    let ttft_ms = ttft_ms.context("a request made no token; the log above says why")?;
    Ok(FirstToken { ttft_ms, cached_tokens })
}
