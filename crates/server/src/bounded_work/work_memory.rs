//! Memory for what is made of bodies: texts that become tokens, tokens that are written out.
//!
//! Each task says how many bytes it may take and waits until they are free; who waits too
//! long is refused with the time to retry. What is taken is given back when the work has ended,
//! also when its client has left. Whoever waits is served in order of arrival, small bodies apart
//! from large ones, so that a few large ones do not hold up everybody.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::api_error::{ApiError, ApiResult};

/// A prompt takes at most eight times its bytes: its normalised text has up to three bytes for
/// each, its ids four, and a chat's rendered text one.
const PROMPT_COST: usize = 8;
/// A list of ids has up to four bytes for each byte of a text, while it grows up to 12.
const REPLY_COST: usize = 16;

/// The limits together with 100 bodies of 4 MiB that wait stay below 1 GB.
const SMALL_BYTES: usize = 32 << 20;
const LARGE_BYTES: usize = 192 << 20;
const REPLY_BYTES: usize = 192 << 20;
/// Longer bodies are large: ten times a long context of English.
const SMALL_BODY_BYTES: usize = 64 << 10;

/// Most clients wait longer than that for a response; the work itself takes well below a second.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

pub struct WorkMemory {
    small: Budget,
    large: Budget,
    /// For replies that are as long as their bodies; a client may take its time to read them.
    replies: Budget,
    longest_wait: Duration,
}

/// Given back when it is dropped.
#[derive(Debug)]
pub struct HeldMemory {
    _permit: OwnedSemaphorePermit,
}

struct Budget {
    /// A permit is a KiB.
    free: Arc<Semaphore>,
    kib: usize,
}

impl WorkMemory {
    pub fn new() -> Self {
        Self {
            small: Budget::new(SMALL_BYTES),
            large: Budget::new(LARGE_BYTES),
            replies: Budget::new(REPLY_BYTES),
            longest_wait: LONGEST_WAIT,
        }
    }

    /// For tokenising a prompt of so many bytes.
    pub async fn for_prompt(&self, bytes: usize) -> ApiResult<HeldMemory> {
        let budget = if bytes <= SMALL_BODY_BYTES { &self.small } else { &self.large };
        self.held(budget, bytes.saturating_mul(PROMPT_COST)).await
    }

    /// For a reply that lists tokens, or their text.
    pub async fn for_reply(&self, bytes: usize) -> ApiResult<HeldMemory> {
        self.held(&self.replies, bytes.saturating_mul(REPLY_COST)).await
    }

    async fn held(&self, budget: &Budget, bytes: usize) -> ApiResult<HeldMemory> {
        // What is larger than the whole budget takes all of it.
        let kib = bytes.div_ceil(1024).clamp(1, budget.kib);
        let kib = u32::try_from(kib).expect("rooms are smaller than 4 TiB");
        match timeout(self.longest_wait, Arc::clone(&budget.free).acquire_many_owned(kib)).await {
            Ok(permit) => {
                Ok(HeldMemory { _permit: permit.expect("the semaphore is never closed") })
            }
            Err(_) => Err(ApiError::busy(self.longest_wait)),
        }
    }
}

impl Default for WorkMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl Budget {
    fn new(bytes: usize) -> Self {
        let kib = bytes >> 10;
        Self { free: Arc::new(Semaphore::new(kib)), kib }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> WorkMemory {
        WorkMemory { longest_wait: Duration::from_millis(20), ..WorkMemory::new() }
    }

    #[tokio::test]
    async fn who_waits_too_long_is_refused_with_a_time_to_retry() {
        let memory = memory();
        let all = memory.for_prompt(LARGE_BYTES).await.expect("nobody else is here");
        let error = memory.for_prompt(1 << 20).await.expect_err("nothing is free").to_json();
        assert!(error.contains("server_busy"), "{error}");
        memory.for_prompt(1 << 10).await.expect("small bodies do not wait for large ones");
        memory.for_reply(1 << 20).await.expect("nor do replies");
        drop(all);
        memory.for_prompt(1 << 20).await.expect("all is free again");
    }

    #[tokio::test]
    async fn who_leaves_while_waiting_takes_nothing() {
        let memory = memory();
        let all = memory.for_prompt(usize::MAX).await.expect("all of the budget");
        drop(timeout(Duration::from_millis(1), memory.for_prompt(1 << 20)).await);
        drop(all);
        memory.for_prompt(LARGE_BYTES).await.expect("nobody waits before it");
    }
}
