//! How the arrays of a step lie in one piece of memory.

use std::ops::Range;

use terrace_kernels::HstuTiles;

use crate::rank::step_input::StepInput;

/// The sizes of a step, which may be larger than what it computes: rows behind its own belong to no
/// sequence and do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct RankForm {
    pub tokens: usize,
    pub seqs: usize,
    pub scored: usize,
    /// Items and sums of all rows, and of the candidates.
    pub tiles: [usize; 2],
    pub candidate_tiles: [usize; 2],
    pub table_pages: usize,
    pub live_table_pages: usize,
    /// Context and items are embedded apart.
    pub has_streams: bool,
}

/// The tiles of a step.
pub(super) struct StepTiles {
    pub all: HstuTiles,
    pub candidates: HstuTiles,
}

/// Steps of more tokens are launched kernel by kernel: they take long enough to hide that.
const CAPTURED_TOKENS: usize = 8192;

/// Where each array lies, in numbers of 32 bits.
pub(super) struct FormPlaces {
    pub block_tables: Range<usize>,
    pub past_tokens: Range<usize>,
    pub live_starts: Range<usize>,
    pub history_rows: Range<usize>,
    pub live_tables: Range<usize>,
    pub tiles: [Range<usize>; 2],
    pub candidate_tiles: [Range<usize>; 2],
    pub ids: Range<usize>,
    /// Rows of tokens of the context, and which of both each token has.
    pub apart: [Range<usize>; 2],
    pub scored: Range<usize>,
    pub words: usize,
}

/// Every array begins at 128 bytes.
const ALIGNED_WORDS: usize = 32;
/// Words of an item, and of a sum.
pub(super) const TILE_WORDS: [usize; 2] = [HstuTiles::ITEM_WORDS, HstuTiles::SUM_WORDS];

impl RankForm {
    /// Of a step as it is.
    pub fn of(input: &StepInput, tiles: &StepTiles) -> Self {
        let count = |tiles: &HstuTiles| {
            [tiles.items.len() / TILE_WORDS[0], tiles.sums.len() / TILE_WORDS[1]]
        };
        RankForm {
            tokens: input.tokens(),
            seqs: input.arrays.seqs(),
            scored: input.scored.len(),
            tiles: count(&tiles.all),
            candidate_tiles: count(&tiles.candidates),
            table_pages: input.arrays.table_pages,
            live_table_pages: input.arrays.live_table_pages,
            has_streams: input.streams.is_some(),
        }
    }

    /// The next larger form of those that are recorded; none where a step is too large for that.
    pub fn padded(self, most: &RankForm) -> Option<Self> {
        let RankForm { tokens, seqs, scored, .. } = self;
        if CAPTURED_TOKENS < tokens {
            return None;
        }
        let grain = match tokens {
            0..=512 => 64,
            513..=1024 => 128,
            _ => 256,
        };
        let tiles = |[items, sums]: [usize; 2], most: [usize; 2]| {
            [items.next_multiple_of(16).min(most[0]), sums.next_multiple_of(8).min(most[1])]
        };
        let padded = tokens.next_multiple_of(grain).min(most.tokens);
        Some(RankForm {
            tiles: tiles(self.tiles, most.tiles),
            candidate_tiles: tiles(self.candidate_tiles, most.candidate_tiles),
            tokens: padded,
            seqs: seqs.next_power_of_two().min(most.seqs),
            // Never more than there are tokens.
            scored: scored.next_power_of_two().max(64).min(padded).min(most.scored),
            ..self
        })
    }

    pub fn places(&self) -> FormPlaces {
        let RankForm { tokens, seqs, scored, table_pages, live_table_pages, .. } = *self;
        let mut end = 0;
        let mut place = |count: usize| {
            let start = end;
            end = (start + count).next_multiple_of(ALIGNED_WORDS);
            start..start + count
        };
        FormPlaces {
            block_tables: place(seqs * table_pages),
            past_tokens: place(seqs),
            live_starts: place(seqs + 1),
            history_rows: place(seqs),
            live_tables: place(seqs * live_table_pages),
            tiles: [0, 1].map(|i| place(TILE_WORDS[i] * self.tiles[i])),
            candidate_tiles: [0, 1].map(|i| place(TILE_WORDS[i] * self.candidate_tiles[i])),
            ids: place(tokens),
            apart: [0, 1].map(|_| place(if self.has_streams { tokens } else { 0 })),
            scored: place(scored),
            words: end,
        }
    }

    /// Writes a step's arrays, and what rows and sequences behind its own have.
    pub fn write(&self, input: &StepInput, tiles: &StepTiles, words: &mut [i32]) {
        let places = self.places();
        let StepInput { arrays, ids, scored, .. } = input;
        let tokens = ids.len() as i32;
        for (place, numbers) in places.apart.iter().zip(input.apart(self.tokens).iter().flatten()) {
            let (own, rest) = words[place.clone()].split_at_mut(numbers.len());
            own.copy_from_slice(numbers);
            rest.fill(0);
        }
        let [items, sums] = places.tiles;
        let [candidate_items, candidate_sums] = places.candidate_tiles;
        for (place, numbers, padding) in [
            (places.block_tables, &arrays.block_tables, 0),
            (places.past_tokens, &arrays.past_tokens, 0),
            (places.live_starts, &arrays.live_starts, tokens),
            (places.history_rows, &arrays.history_rows, 0),
            (places.live_tables, &arrays.live_tables, 0),
            (items, &tiles.all.items, 0),
            (sums, &tiles.all.sums, 0),
            (candidate_items, &tiles.candidates.items, 0),
            (candidate_sums, &tiles.candidates.sums, 0),
            (places.ids, ids, 0),
            (places.scored, scored, -1),
        ] {
            let place = &mut words[place];
            let (own, rest) = place.split_at_mut(numbers.len());
            own.copy_from_slice(numbers);
            rest.fill(padding);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_padded_to_few_sizes() {
        let most = RankForm {
            tokens: 9999,
            seqs: 24,
            scored: 9999,
            tiles: [0; 2],
            candidate_tiles: [0; 2],
            table_pages: 3,
            live_table_pages: 2,
            has_streams: false,
        };
        let form = |tokens, seqs, scored| {
            let padded = RankForm { tokens, seqs, scored, ..most }.padded(&most)?;
            Some((padded.tokens, padded.seqs, padded.scored))
        };
        assert_eq!(form(1, 1, 0), Some((64, 1, 64)));
        assert_eq!(form(384, 3, 256), Some((384, 4, 256)));
        assert_eq!(form(1100, 17, 300), Some((1280, 24, 512)));
        assert_eq!(form(180, 5, 140), Some((192, 8, 192)));
        assert_eq!(form(9000, 1, 1), None);
    }

    #[test]
    fn arrays_do_not_overlap_and_begin_aligned() {
        let form = RankForm {
            tokens: 5,
            seqs: 2,
            scored: 3,
            tiles: [2, 1],
            candidate_tiles: [1, 0],
            table_pages: 7,
            live_table_pages: 1,
            has_streams: true,
        };
        let places = form.places();
        let all = [
            places.block_tables,
            places.past_tokens,
            places.live_starts,
            places.history_rows,
            places.live_tables,
            places.tiles[0].clone(),
            places.tiles[1].clone(),
            places.candidate_tiles[0].clone(),
            places.candidate_tiles[1].clone(),
            places.ids,
            places.apart[0].clone(),
            places.apart[1].clone(),
            places.scored,
        ];
        assert!(all.iter().all(|place| place.start.is_multiple_of(ALIGNED_WORDS)));
        assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert!(all[12].end <= places.words);
    }
}
