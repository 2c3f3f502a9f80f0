//! Requests in batches: those of a batch are under way at once.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use terrace_engine::rank::{
    RankConfig, RankError, RankHandle, RankOutput, RankRequest, RankSetup, RankSource,
    RetrieveOutput, RetrieveRequest, UserKey,
};
use terrace_model::hstu::HstuFiles;
use tokio::runtime::Runtime;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    On,
    /// Each request is of a user whom nobody knows.
    Off,
}

pub struct RequestBatches {
    engine: RankHandle,
    runtime: Runtime,
    caching: Caching,
    requests: u64,
}

/// What came of a request, and how long its caller waited.
pub struct Timed<T> {
    pub output: T,
    pub latency: Duration,
}

impl RequestBatches {
    pub fn start(files: &HstuFiles, config: RankConfig, caching: Caching) -> Result<Self> {
        let engine = RankSetup { source: RankSource::Files(files), config }.start()?;
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        Ok(RequestBatches { engine, runtime, caching, requests: 0 })
    }

    pub fn is_cached(&self) -> bool {
        self.caching == Caching::On
    }

    /// Ranks; of requests without candidates histories are computed and kept.
    pub fn rank(&mut self, mut requests: Vec<RankRequest>) -> Result<Vec<Timed<RankOutput>>> {
        requests.iter_mut().for_each(|request| self.name_user(request));
        let engine = &self.engine;
        self.all(requests.into_iter().map(|request| {
            let (engine, user) = (engine.clone(), request.user.clone());
            (user, async move { engine.append(request).await })
        }))
    }

    pub fn retrieve(
        &mut self,
        mut requests: Vec<RetrieveRequest>,
    ) -> Result<Vec<Timed<RetrieveOutput>>> {
        requests.iter_mut().for_each(|request| self.name_user(&mut request.history));
        let engine = &self.engine;
        self.all(requests.into_iter().map(|request| {
            let (engine, user) = (engine.clone(), request.history.user.clone());
            (user, async move { engine.retrieve(request).await })
        }))
    }

    /// Nothing is known of anybody from here on.
    pub fn forget(&self) -> Result<()> {
        self.runtime.block_on(self.engine.evict_all()).context("cannot empty the cache")?;
        Ok(())
    }

    fn name_user(&mut self, request: &mut RankRequest) {
        self.requests += 1;
        if self.caching == Caching::Off {
            let tenant = format!("request {}", self.requests);
            request.user = UserKey::new(&tenant, &request.user.user);
        }
    }

    /// In the order of the requests.
    fn all<T, F>(&self, requests: impl Iterator<Item = (UserKey, F)>) -> Result<Vec<Timed<T>>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, RankError>> + Send + 'static,
    {
        self.runtime.block_on(async {
            let began = Instant::now();
            let under_way: Vec<_> = requests
                .map(|(user, request)| {
                    let timed = async move { (request.await, began.elapsed()) };
                    (user, tokio::spawn(timed))
                })
                .collect();
            let mut outputs = Vec::with_capacity(under_way.len());
            for (user, request) in under_way {
                let (output, latency) = request.await?;
                let output = output.map_err(|error| anyhow!("user {}: {error}", user.user))?;
                outputs.push(Timed { output, latency });
            }
            Ok(outputs)
        })
    }
}
