//! How the rows of a step are divided among the blocks of a GPU: tiles of rows, and for those with
//! many keys, parts of their keys.
//!
//! A step of few sequences has fewer tiles than the GPU has multiprocessors, or some that take
//! longer than all others together. Sums over keys can be added, so such tiles are cut where a
//! multiprocessor's share of all work ends. Parts cost: their sums are written and read again, so
//! it is done where it saves much.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Live rows of one sequence that a block of a GPU's attention takes.
pub const HSTU_TILE_ROWS: usize = 128;

/// Some live rows of one sequence, at most [`HSTU_TILE_ROWS`], and what any of them sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HstuRowTile {
    pub seq: usize,
    /// In the batch.
    pub rows: Range<usize>,
    pub history: Range<usize>,
    pub candidates: Range<usize>,
}

/// How a device wants tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HstuTiling {
    /// Multiprocessors for each head.
    pub workers: usize,
    /// Keys that are summed together.
    pub key_tile: usize,
    /// Parts whose sums there is room for; 0 where keys are not to be divided.
    pub parts: usize,
}

impl HstuTiling {
    /// Keys are not divided.
    pub const NONE: HstuTiling = HstuTiling { workers: 1, key_tile: 64, parts: 0 };
}

/// What [`HstuKv`](super::HstuKv) points at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HstuTiles {
    /// `[tiles, ITEM_WORDS]`: sequence, first row, rows, start and end of the history and of the
    /// candidates that any row sees, the first tile of keys and the one behind the last, the part
    /// or -1, and two unused.
    pub items: Vec<i32>,
    /// `[tiles that are divided, SUM_WORDS]`: first row, rows, first part, parts.
    pub sums: Vec<i32>,
}

/// Tiles of keys that are worth a part.
const LEAST_SHARE: usize = 4;
/// What a part costs beside its keys, in tiles of keys.
const PART_COST: usize = 6;

impl HstuTiles {
    pub const ITEM_WORDS: usize = 12;
    pub const SUM_WORDS: usize = 4;

    /// `tiles` are in the order in which they are best begun.
    pub fn new(tiles: &[HstuRowTile], tiling: HstuTiling) -> Self {
        let whole = HstuTiling { parts: 0, ..tiling };
        let work = |tile: &HstuRowTile| tile.key_tiles(tiling.key_tile);
        let longest = tiles.iter().map(work).max().unwrap_or(0);
        let total: usize = tiles.iter().map(work).sum();
        let share = total.div_ceil(tiling.workers.max(1)).max(LEAST_SHARE);
        if tiling.parts == 0 || longest <= share {
            return Self::cut(tiles, share, whole);
        }
        let (whole, parts) = (Self::cut(tiles, share, whole), Self::cut(tiles, share, tiling));
        match 5 * parts.duration(tiling.workers) <= 4 * whole.duration(tiling.workers) {
            true => parts,
            false => whole,
        }
    }

    /// How long the last worker works, in tiles of keys, where each takes the next item when it has
    /// done one.
    fn duration(&self, workers: usize) -> usize {
        let mut ends = BinaryHeap::from(vec![Reverse(0); workers.max(1)]);
        let mut last = 0;
        for item in self.items.chunks_exact(Self::ITEM_WORDS) {
            let Reverse(begin) = ends.pop().expect("there is a worker");
            let cost = if item[9] < 0 { 0 } else { PART_COST };
            let end = begin + (item[8] - item[7]) as usize + cost;
            last = last.max(end);
            ends.push(Reverse(end));
        }
        last
    }

    /// Cuts every tile at multiples of a share, as far as there is room for parts.
    pub(crate) fn cut(tiles: &[HstuRowTile], share: usize, tiling: HstuTiling) -> Self {
        let work = |tile: &HstuRowTile| tile.key_tiles(tiling.key_tile);
        let mut items = Vec::with_capacity(tiles.len());
        let (mut sums, mut parts) = (Vec::new(), 0);
        for tile in tiles {
            let cuts = cuts(work(tile), share);
            let count = cuts.len() - 1;
            if count == 1 || tiling.parts < parts + count {
                items.push((work(tile), tile.item(0..work(tile), None)));
                continue;
            }
            for (index, pair) in cuts.windows(2).enumerate() {
                let part = Some(parts + index);
                items.push((pair[1] - pair[0], tile.item(pair[0]..pair[1], part)));
            }
            let words = [tile.rows.start, tile.rows.len(), parts, count];
            sums.extend(words.map(to_i32));
            parts += count;
        }
        if !sums.is_empty() {
            items.sort_by_key(|(work, _)| Reverse(*work));
        }
        HstuTiles { items: items.into_iter().flat_map(|(_, item)| item).collect(), sums }
    }
}

/// Where so many tiles of keys are cut: at each share, unless little would be left.
fn cuts(work: usize, share: usize) -> Vec<usize> {
    let mut cuts = vec![0];
    while share + share / 4 < work - cuts[cuts.len() - 1] {
        cuts.push(cuts[cuts.len() - 1] + share);
    }
    cuts.push(work);
    cuts
}

impl HstuRowTile {
    /// Tiles of keys of the history, and then of the candidates.
    fn key_tiles(&self, key_tile: usize) -> usize {
        let tiles = |seen: &Range<usize>| match seen.is_empty() {
            true => 0,
            false => seen.end.div_ceil(key_tile) - seen.start / key_tile,
        };
        tiles(&self.history) + tiles(&self.candidates)
    }

    fn item(&self, keys: Range<usize>, part: Option<usize>) -> [i32; HstuTiles::ITEM_WORDS] {
        let HstuRowTile { seq, rows, history, candidates } = self;
        let words = [
            *seq,
            rows.start,
            rows.len(),
            history.start,
            history.end,
            candidates.start,
            candidates.end,
            keys.start,
            keys.end,
        ];
        let mut item = [0; HstuTiles::ITEM_WORDS];
        for (to, word) in item.iter_mut().zip(words) {
            *to = to_i32(word);
        }
        item[words.len()] = part.map_or(-1, to_i32);
        item
    }
}

fn to_i32(number: usize) -> i32 {
    i32::try_from(number).expect("rows and keys are 31 bits wide")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(keys: usize, candidates: usize) -> HstuRowTile {
        HstuRowTile { seq: 3, rows: 10..138, history: 0..keys, candidates: 0..candidates }
    }

    #[test]
    fn few_tiles_are_cut_into_shares() {
        let tiling = HstuTiling { workers: 33, key_tile: 64, parts: 100 };
        let tiles = HstuTiles::new(&vec![tile(4096, 256); 12], tiling);
        // 68 tiles of keys each, 816 in all, are shares of 25.
        assert_eq!((tiles.items.len() / 12, tiles.sums.len() / 4), (36, 12));
        let item = |i: usize| &tiles.items[12 * i..12 * (i + 1)];
        assert_eq!(item(0), [3, 10, 128, 0, 4096, 0, 256, 0, 25, 0, 0, 0]);
        assert_eq!(item(24), [3, 10, 128, 0, 4096, 0, 256, 50, 68, 2, 0, 0]);
        assert_eq!(tiles.sums[4..8], [10, 128, 3, 3]);
        // Two parts of each of these would save little.
        let tiles = HstuTiles::new(&vec![tile(4096, 256); 24], tiling);
        assert_eq!((tiles.items.len() / 12, tiles.sums.len() / 4), (24, 0));
    }

    #[test]
    fn many_tiles_and_devices_without_parts_stay_whole() {
        let tiling = HstuTiling { workers: 33, key_tile: 64, parts: 100 };
        let tiles = HstuTiles::new(&vec![tile(4096, 256); 80], tiling);
        assert_eq!((tiles.items.len() / 12, tiles.sums.len()), (80, 0));
        let none = HstuTiling { parts: 0, ..tiling };
        let tiles = HstuTiles::new(&vec![tile(4096, 256); 2], none);
        assert_eq!((tiles.items.len() / 12, tiles.items[9]), (2, -1));
    }

    #[test]
    fn parts_are_all_of_the_keys_in_their_order() {
        for (work, share) in [(0, 4), (4, 4), (5, 4), (6, 4), (17, 4), (68, 50), (1000, 37)] {
            let cuts = cuts(work, share);
            assert_eq!((cuts[0], cuts[cuts.len() - 1]), (0, work));
            assert!(work == 0 || cuts.is_sorted_by(|a, b| a < b), "{cuts:?}");
            assert!(cuts.windows(2).all(|pair| pair[1] - pair[0] <= share + share / 4));
        }
    }
}
