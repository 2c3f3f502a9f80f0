//! A batch that a plain client's threads share, each with a part of its keys.

use anyhow::Result;

/// Calls `get` with as many parts as there are threads · rows: `[keys, dim]` · found: `[keys]`
pub fn split_batch(
    keys: &[i64],
    rows: &mut [f32],
    found: &mut [bool],
    threads: usize,
    get: impl Fn(&[i64], &mut [f32], &mut [bool]) -> Result<()> + Sync,
) -> Result<()> {
    if threads == 1 {
        return get(keys, rows, found);
    }
    let dim = rows.len() / keys.len();
    let part = keys.len().div_ceil(threads);
    let parts = keys.chunks(part).zip(rows.chunks_mut(part * dim)).zip(found.chunks_mut(part));
    let get = &get;
    std::thread::scope(|scope| {
        let parts: Vec<_> = parts
            .map(|((keys, rows), found)| scope.spawn(move || get(keys, rows, found)))
            .collect();
        parts.into_iter().try_for_each(|part| {
            part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}
