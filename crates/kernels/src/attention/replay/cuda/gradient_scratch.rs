//! The memory that gradients on Hopper work in.

use terrace_device::DType;

use crate::attention::replay::args::ChunkAt;

/// How much of it a chunk needs.
pub(super) struct GradientScratch {
    /// Of a head's queries.
    pub tiles: usize,
    /// Tiles of all heads.
    items: usize,
    queries: usize,
}

/// Addresses of its parts, as `ReplayGradientParams` in `replay_gradients.cuh` has them.
pub(super) struct GradientParts {
    pub query_images: u64,
    pub d_out_images: u64,
    pub stats: u64,
    pub sums: u64,
    pub maxima: u64,
    pub factor: u64,
}

impl GradientScratch {
    /// A tile of queries as it is in shared memory.
    pub(super) const IMAGE_BYTES: usize = 16 << 10;
    /// Blocks that look for the largest gradient.
    pub(super) const MAXIMA: usize = 256;

    pub(super) fn new(at: &ChunkAt) -> Self {
        let queries = Self::tile_queries(at.dim);
        let tiles = at.tokens.div_ceil(queries);
        GradientScratch { tiles, items: at.seqs * at.heads * tiles, queries }
    }

    /// Queries of a tile.
    pub(super) fn tile_queries(dim: usize) -> usize {
        Self::IMAGE_BYTES / (dim * DType::Bf16.bytes())
    }

    pub(super) fn bytes(&self) -> usize {
        let maxima_and_factor = (Self::MAXIMA + 1) * DType::F32.bytes();
        2 * self.images() + self.stats() + self.sums() + maxima_and_factor
    }

    /// The parts of memory that begins at `address`; each of them begins at a multiple of 256 bytes
    /// if that does.
    pub(super) fn at(&self, address: u64) -> GradientParts {
        let query_images = address;
        let d_out_images = query_images + self.images() as u64;
        let stats = d_out_images + self.images() as u64;
        let sums = stats + self.stats() as u64;
        let maxima = sums + self.sums() as u64;
        let factor = maxima + (Self::MAXIMA * DType::F32.bytes()) as u64;
        GradientParts { query_images, d_out_images, stats, sums, maxima, factor }
    }

    fn images(&self) -> usize {
        self.items * Self::IMAGE_BYTES
    }

    /// The logarithm of each query's sum, and its mean.
    fn stats(&self) -> usize {
        self.items * 2 * self.queries * DType::F32.bytes()
    }

    /// As many numbers as an image has, in f32.
    fn sums(&self) -> usize {
        self.items * Self::IMAGE_BYTES / DType::Bf16.bytes() * DType::F32.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_lie_one_behind_the_other() {
        let at = ChunkAt {
            seqs: 2,
            row_tokens: 300,
            first: 3,
            tokens: 129,
            position: 50,
            heads: 6,
            kv_heads: 2,
            dim: 64,
        };
        let scratch = GradientScratch::new(&at);
        assert_eq!(scratch.tiles, 2);
        let (items, parts) = (2 * 6 * 2, scratch.at(1 << 20));
        assert_eq!(parts.d_out_images - parts.query_images, items * (16 << 10));
        assert_eq!(parts.stats - parts.d_out_images, items * (16 << 10));
        assert_eq!(parts.sums - parts.stats, items * 2 * 128 * 4);
        assert_eq!(parts.maxima - parts.sums, items * 128 * 64 * 4);
        assert_eq!(parts.factor + 4, (1 << 20) + scratch.bytes() as u64);
        assert_eq!(GradientScratch::new(&ChunkAt { dim: 128, ..at }).tiles, 3);
    }
}
