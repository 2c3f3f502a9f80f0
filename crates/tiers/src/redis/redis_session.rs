//! The servers as calls that block see them: threads of its own, and one link that all calls share.
//!
//! Connecting is part of the first call, and of the first after a failure, so that a server that is
//! down delays nobody's start. Calls that come while it connects wait for the same attempt. A call
//! that fails takes the link away, so that the next one finds out anew who is there, and what was
//! sent on it and not answered is dropped.
//!
//! Calls may not be made from a thread that runs async tasks.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use redis::RedisError;
use tokio::runtime::Runtime;

use super::redis_fault::{RedisAdvice, redis_fault};
use super::redis_link::RedisLink;
use super::redis_nodes::RedisNodes;
use crate::tier_error::TierError;

pub struct RedisSession {
    nodes: Arc<RedisNodes>,
    timeout: Duration,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    link: Mutex<CachedLink>,
}

#[derive(Default)]
struct CachedLink {
    link: Option<Shared<BoxFuture<'static, Result<RedisLink, TierError>>>>,
    /// Counts links, so that a late failure does not take away the next one.
    number: u64,
}

/// Of each session, for connections and what they read.
const THREADS: usize = 2;

impl RedisSession {
    /// Starts its threads. The first call connects.
    pub fn new(nodes: RedisNodes, timeout: Duration, name: &str) -> Result<Self, TierError> {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(THREADS).thread_name(name).enable_all().build();
        let runtime = runtime.map_err(|error| {
            TierError::Unavailable(format!("redis: cannot start its threads: {error}"))
        })?;
        let nodes = Arc::new(nodes);
        Ok(RedisSession { nodes, timeout, runtime: Some(runtime), link: Mutex::default() })
    }

    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Runs a call on this thread.
    pub fn block_on<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime().block_on(call)
    }

    /// Runs something beside all calls, until it ends or the session is dropped.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime().spawn(work);
    }

    /// The link, and its number for [`drop_link`](Self::drop_link); within the time limit.
    pub async fn link(&self) -> Result<(RedisLink, u64), TierError> {
        let (link, number) = self.coming_link();
        let connected = tokio::time::timeout(self.timeout, link).await;
        let connected = connected.unwrap_or_else(|_| Err(self.timed_out("redis", "connection")));
        connected.map(|link| (link, number)).inspect_err(|_| self.drop_link(number))
    }

    /// After a failure of it.
    pub fn drop_link(&self, number: u64) {
        let mut cached = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.number == number {
            cached.link = None;
        }
    }

    /// What an error means; `place` begins with "redis" and may name a node.
    pub fn fault(&self, error: &RedisError, place: &str) -> TierError {
        redis_fault(error, place, &self.nodes.advice)
    }

    pub fn timed_out(&self, place: &str, what: &str) -> TierError {
        TierError::TimedOut(format!(
            "{place}: no {what} within {} ms; check network and load, or give it more time",
            self.timeout.as_millis()
        ))
    }

    pub(super) fn advice(&self) -> &RedisAdvice {
        &self.nodes.advice
    }

    fn coming_link(&self) -> (Shared<BoxFuture<'static, Result<RedisLink, TierError>>>, u64) {
        let mut cached = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if cached.link.is_none() {
            let (nodes, timeout) = (self.nodes.clone(), self.timeout);
            let late = self.timed_out("redis", "connection");
            // On a thread of its own: whoever began it may give up, and others wait for it.
            let task = self.runtime().spawn(async move {
                let connecting = RedisLink::connect(&nodes, timeout);
                tokio::time::timeout(timeout, connecting).await.unwrap_or(Err(late))
            });
            let link = async move {
                task.await.unwrap_or_else(|error| {
                    Err(TierError::Unavailable(format!("redis: connecting ended: {error}")))
                })
            };
            cached.number += 1;
            cached.link = Some(link.boxed().shared());
        }
        let link = cached.link.clone().expect("it was made above");
        (link, cached.number)
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("there until it is dropped")
    }
}

impl Drop for RedisSession {
    /// Without waiting for what is under way.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
