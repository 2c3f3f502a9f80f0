//! Where a sequence is cut: a function of the request alone.
//!
//! What a policy evicts depends on these cuts, so neither load nor other sequences may move them.
//! The first chunk fills the shortest cache; the others have `chunk_size` tokens, and one ends
//! where a longer cache becomes full, so that no chunk both fills a cache and evicts from it.

use terrace_kernels::sampling::uniform;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkSizes {
    pub tokens: usize,
    /// Sizes around `tokens`, drawn from this seed.
    pub random_seed: Option<u64>,
}

/// A chunk may be longer by this to end where a cache becomes full: no short one is left over.
pub(super) const EXTENSION_MOST: usize = 4;
/// Different sizes that a sequence with random ones has.
const RANDOM_SIZES: usize = 5;

/// Lengths of the chunks of the first `tokens` tokens, in layers of these lengths.
pub fn chunk_plan(cache_lengths: &[usize], tokens: usize, sizes: ChunkSizes) -> Vec<usize> {
    let mut ends: Vec<usize> =
        cache_lengths.iter().copied().filter(|length| *length <= tokens).collect();
    ends.sort_unstable();
    ends.dedup();
    let Some(&shortest) = ends.first() else {
        return if tokens == 0 { Vec::new() } else { vec![tokens] };
    };
    let mut draw = SizeDraw::new(sizes, shortest);
    // The size of a chunk that the first one has used up.
    draw.next_size();
    let mut ends = ends.into_iter().skip(1).peekable();
    let mut chunks = vec![shortest];
    let mut done = shortest;
    while done < tokens {
        let mut size = draw.next_size().min(tokens - done);
        if let Some(end) = ends.next_if(|end| *end <= done + size + EXTENSION_MOST) {
            size = end - done;
        }
        chunks.push(size);
        done += size;
    }
    chunks
}

impl ChunkSizes {
    /// The longest chunk after the first, unless a cache becomes full there.
    pub(super) fn longest(self) -> usize {
        match self.random_seed {
            None => self.tokens,
            Some(_) => self.tokens + self.tokens / 2,
        }
    }
}

/// Sizes in the order in which chunks take them.
struct SizeDraw {
    sizes: Vec<usize>,
    seed: u64,
    draws: u64,
}

impl SizeDraw {
    fn new(sizes: ChunkSizes, shortest: usize) -> Self {
        let Some(seed) = sizes.random_seed else {
            return SizeDraw { sizes: vec![sizes.tokens], seed: 0, draws: 0 };
        };
        let least = (sizes.tokens - sizes.tokens / 2).max(1);
        let most = sizes.longest().min(shortest).max(least);
        let mut draw = SizeDraw { sizes: Vec::new(), seed, draws: 0 };
        for _ in 0..RANDOM_SIZES {
            let size = least + draw.below(most - least + 1);
            draw.sizes.push(size);
        }
        draw
    }

    fn next_size(&mut self) -> usize {
        let choice = if self.sizes.len() == 1 { 0 } else { self.below(self.sizes.len()) };
        self.sizes[choice]
    }

    /// One of `0..end`: the next number of Philox4x32-10 in [0, 1), times `end`.
    fn below(&mut self, end: usize) -> usize {
        let number = uniform(self.seed, 0, self.draws);
        self.draws += 1;
        (number * end as f64) as usize
    }
}
