//! The users of a measurement, and what is timed with them.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use terrace_cache::users::UserKey;
use terrace_engine::rank::{RankEngine, RankFront, RankRequest, Removal};
use terrace_kernels::random::SplitMix;

use super::control_path::ControlPath;

/// Rows of each table.
pub const TABLE_ROWS: usize = 4096;

/// How long requests took, and of that a device.
pub struct Taken {
    pub all: Duration,
    pub device: Duration,
}

pub struct RankedUsers {
    engine: RankEngine,
    front: RankFront,
    requests: Vec<RankRequest>,
}

impl RankedUsers {
    pub fn new(
        engine: RankEngine,
        front: RankFront,
        users: usize,
        history: usize,
        candidates: usize,
    ) -> Self {
        let request = |user: usize| RankRequest {
            user: UserKey::new("", &format!("user {user}")),
            context: Vec::new(),
            items: ids(history, user as u64),
            actions: Vec::new(),
            candidates: ids(candidates, 1000 + user as u64),
            start: None,
            priority: 0,
            strict: true,
            timeout_ms: None,
        };
        RankedUsers { engine, front, requests: (0..users).map(request).collect() }
    }

    pub fn uncached(&mut self) -> Result<Taken> {
        self.forget()?;
        self.time(self.requests.clone(), 0)
    }

    pub fn cached(&mut self, cached: usize) -> Result<Taken> {
        self.warm(cached)?;
        self.time(self.requests.clone(), cached)
    }

    pub fn promoted(&mut self, cached: usize) -> Result<Taken> {
        self.bring_to_host(cached)?;
        self.time(self.requests.clone(), cached)
    }

    pub fn transfer(&mut self, cached: usize) -> Result<Taken> {
        self.bring_to_host(cached)?;
        self.time(self.prefixes(cached), cached)
    }

    /// What is done with requests before the engine sees them.
    pub fn requests(&self) -> Result<Taken> {
        let requests = self.requests.clone();
        let began = Instant::now();
        let jobs = requests.into_iter().map(|request| self.front.job(request));
        let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
        let all = began.elapsed();
        drop(jobs);
        Ok(Taken { all, device: Duration::ZERO })
    }

    /// The engine's own cache is not touched.
    pub fn control_path(&self, cached: usize, page_tokens: usize) -> Result<Taken> {
        let mut path = ControlPath::new(&self.front.seed, page_tokens, &self.requests, cached);
        let began = Instant::now();
        path.run();
        Ok(Taken { all: began.elapsed(), device: Duration::ZERO })
    }

    /// Asks for all at once; all of them must have so many tokens cached.
    fn time(&mut self, requests: Vec<RankRequest>, cached: usize) -> Result<Taken> {
        let device_us = self.engine.stats().device_us;
        let began = Instant::now();
        let count = requests.len();
        for request in requests {
            let job = self.front.job(request)?;
            self.engine.add(job)?;
        }
        let mut outputs = Vec::with_capacity(count);
        while outputs.len() < count {
            let (events, _) = self.engine.step();
            for (_, output) in events.jobs {
                outputs.push(output?);
            }
        }
        let all = began.elapsed();
        let device = Duration::from_micros(self.engine.stats().device_us - device_us);
        if let Some(other) = outputs.iter().find(|output| output.cached_tokens != cached) {
            bail!("{} tokens were cached instead of {cached}", other.cached_tokens);
        }
        let numbers = outputs.iter().flat_map(|output| &output.logits);
        if let Some(wrong) = numbers.copied().find(|number| !number.is_finite()) {
            bail!("a score is {wrong}");
        }
        self.settle();
        Ok(Taken { all, device })
    }

    /// The first tokens of all, without candidates.
    fn prefixes(&self, tokens: usize) -> Vec<RankRequest> {
        let prefix = |request: &RankRequest| RankRequest {
            items: request.items[..tokens].to_vec(),
            candidates: Vec::new(),
            ..request.clone()
        };
        self.requests.iter().map(prefix).collect()
    }

    fn warm(&mut self, tokens: usize) -> Result<()> {
        self.forget()?;
        self.time(self.prefixes(tokens), 0).map(|_| ())
    }

    fn bring_to_host(&mut self, tokens: usize) -> Result<()> {
        self.warm(tokens)?;
        for index in 0..self.requests.len() {
            let user = self.requests[index].user.clone();
            self.engine.offload(&user)?;
            self.settle();
            self.engine.evict_from_device(&user);
            let found = self.engine.span(&user);
            if found.length != tokens || found.device_start.is_some() {
                bail!("host memory is too small for {} users", self.requests.len());
            }
        }
        Ok(())
    }

    fn forget(&mut self) -> Result<()> {
        self.engine.remove(Removal { user: None, prefix: Vec::new() });
        while self.engine.step().0.removals.is_empty() {}
        self.settle();
        Ok(())
    }

    /// Until nothing moves.
    fn settle(&mut self) {
        while !self.engine.is_idle() {
            self.engine.step();
        }
    }
}

fn ids(count: usize, seed: u64) -> Vec<i64> {
    let mut random = SplitMix::new(seed);
    (0..count).map(|_| random.below(TABLE_ROWS) as i64).collect()
}
