//! A look-up cut into parts, which a few threads fill beside each other.

use terrace_tiers::TierError;

/// Some keys of a look-up, with their places · rows: `[keys, dim]` · found: `[keys]`
pub struct LookupPart<'a> {
    pub keys: &'a [i64],
    pub rows: &'a mut [f32],
    pub found: &'a mut [bool],
}

/// Fewer are not worth a thread.
const PART_KEYS_MIN: usize = 1024;

/// Calls `work` with all parts, one of them on this thread. Each is worked on, whatever becomes of
/// the others; the first error is returned.
pub fn in_parts(
    lookup: LookupPart<'_>,
    threads: usize,
    work: impl Fn(LookupPart<'_>) -> Result<(), TierError> + Sync,
) -> Result<(), TierError> {
    let parts = (lookup.keys.len() / PART_KEYS_MIN).clamp(1, threads.max(1));
    if parts == 1 {
        return work(lookup);
    }
    let part_keys = lookup.keys.len().div_ceil(parts);
    let dim = lookup.rows.len() / lookup.keys.len();
    let keys = lookup.keys.chunks(part_keys);
    let rows = lookup.rows.chunks_mut(part_keys * dim);
    let found = lookup.found.chunks_mut(part_keys);
    let mut parts =
        keys.zip(rows).zip(found).map(|((keys, rows), found)| LookupPart { keys, rows, found });
    let work = &work;
    std::thread::scope(|scope| {
        let mine = parts.next().expect("there are keys, so there is a part");
        let others: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        let mine = work(mine);
        others.into_iter().fold(mine, |result, other| {
            result.and(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_filled_and_the_first_error_comes_back() {
        for threads in [0, 1, 2, 3, 16] {
            for count in [0, 1, 1023, 2048, 5000] {
                let keys: Vec<i64> = (0..count).collect();
                let mut rows = vec![0.0; keys.len() * 3];
                let mut found = vec![false; keys.len()];
                let lookup = LookupPart { keys: &keys, rows: &mut rows, found: &mut found };
                let result = in_parts(lookup, threads, |part| {
                    let rows = part.rows.chunks_exact_mut(3).zip(part.keys);
                    rows.for_each(|(row, key)| row.fill(*key as f32));
                    part.found.fill(true);
                    Err(TierError::Io(part.keys.first().map_or(0, |key| *key).to_string()))
                });
                assert_eq!(result, Err(TierError::Io("0".to_owned())));
                assert!(found.iter().all(|found| *found));
                let want = keys.iter().flat_map(|key| [*key as f32; 3]);
                assert!(rows.iter().copied().eq(want), "{threads} threads, {count} keys");
            }
        }
    }
}
