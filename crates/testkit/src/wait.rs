//! Waiting for what other processes and threads do.

use std::time::{Duration, Instant};

/// They need a few seconds at most.
const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited for {PATIENCE:?} until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
