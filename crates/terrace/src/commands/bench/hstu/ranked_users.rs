//! The users of a measurement, and what is timed with them.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use terrace_cache::users::UserKey;
use terrace_engine::rank::{RankEngine, RankFront, RankOutput, RankRequest, Removal};
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
    /// Of the last requests whose histories were not cached, user by user.
    uncached_logits: Vec<f32>,
    pub difference: ScoreDifference,
}

/// How far scores with cached histories are from those without.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScoreDifference {
    pub largest: f32,
    /// Of the scores themselves.
    pub largest_score: f32,
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
        RankedUsers {
            engine,
            front,
            requests: (0..users).map(request).collect(),
            uncached_logits: Vec::new(),
            difference: ScoreDifference::default(),
        }
    }

    pub fn uncached(&mut self) -> Result<Taken> {
        self.forget()?;
        let (taken, logits) = self.time(self.requests.clone(), 0)?;
        self.uncached_logits = logits;
        Ok(taken)
    }

    pub fn cached(&mut self, cached: usize) -> Result<Taken> {
        self.warm(cached)?;
        let (taken, logits) = self.time(self.requests.clone(), cached)?;
        for (uncached, cached) in self.uncached_logits.iter().zip(logits) {
            let ScoreDifference { largest, largest_score } = &mut self.difference;
            *largest = largest.max((uncached - cached).abs());
            *largest_score = largest_score.max(uncached.abs());
        }
        Ok(taken)
    }

    pub fn promoted(&mut self, cached: usize) -> Result<Taken> {
        self.bring_to_host(cached)?;
        Ok(self.time(self.requests.clone(), cached)?.0)
    }

    pub fn transfer(&mut self, cached: usize) -> Result<Taken> {
        self.bring_to_host(cached)?;
        Ok(self.time(self.prefixes(cached), cached)?.0)
    }

    /// What is done with requests before the engine sees them.
    pub fn requests(&self) -> Result<Taken> {
        let began = Instant::now();
        let jobs = self.requests.iter().map(|request| self.front.job(request));
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

    /// Asks for all at once; all of them must have so many tokens cached. Their scores, user by
    /// user.
    fn time(&mut self, requests: Vec<RankRequest>, cached: usize) -> Result<(Taken, Vec<f32>)> {
        let device_us = self.engine.stats().device_us;
        let began = Instant::now();
        let count = requests.len();
        for request in requests {
            let job = self.front.job(&request)?;
            self.engine.add(job)?;
        }
        let mut outputs = Vec::with_capacity(count);
        while outputs.len() < count {
            let (events, _) = self.engine.step();
            for (id, output) in events.jobs {
                outputs.push((id, output?));
            }
        }
        let all = began.elapsed();
        let device = Duration::from_micros(self.engine.stats().device_us - device_us);
        outputs.sort_by_key(|(id, _)| *id);
        let outputs: Vec<RankOutput> = outputs.into_iter().map(|(_, output)| output).collect();
        if let Some(other) = outputs.iter().find(|output| output.cached_tokens != cached) {
            bail!("{} tokens were cached instead of {cached}", other.cached_tokens);
        }
        let logits: Vec<f32> = outputs.into_iter().flat_map(|output| output.logits).collect();
        if let Some(wrong) = logits.iter().find(|number| !number.is_finite()) {
            bail!("a score is {wrong}");
        }
        self.settle();
        Ok((Taken { all, device }, logits))
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
