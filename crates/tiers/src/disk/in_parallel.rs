//! One function over many items, on a few threads that end with the call.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `work` once for each item, on this thread and as many more as `threads` says. All items
/// are worked on, whatever becomes of others; the first error that was met is returned.
pub fn in_parallel<T: Sync, E: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut result = Ok(());
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            result = result.and(work(item));
        }
        result
    };
    let others = threads.min(items.len()).saturating_sub(1);
    std::thread::scope(|scope| {
        let others: Vec<_> = (0..others).map(|_| scope.spawn(run)).collect();
        let mine = run();
        others.into_iter().fold(mine, |result, other| {
            result.and(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    })
}
