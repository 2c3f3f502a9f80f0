//! The arrays that say what a step of a decoder computes, made on the host.

use terrace_kernels::CHUNK_TILE_TOKENS;

/// What [`PagedKv`](terrace_kernels::PagedKv) and [`TokenRows`](crate::TokenRows) point at.
#[derive(Default)]
pub(super) struct StepArrays {
    pub ids: Vec<i32>,
    pub positions: Vec<i32>,
    pub past_tokens: Vec<i32>,
    /// Without the last, which is the number of rows.
    pub live_starts: Vec<i32>,
    /// The sequence of each row, by its number among those of the step.
    pub row_seqs: Vec<i32>,
    /// Rows by where their tokens come from.
    pub prompt_rows: Vec<u32>,
    pub generated_rows: Vec<u32>,
    pub groups: Vec<GroupArrays>,
}

/// Where the sequences of a step have their pages in one group of layers.
#[derive(Clone, Default)]
pub(super) struct GroupArrays {
    pub block_tables: Vec<i32>,
    pub commit_slots: Vec<i32>,
}

impl StepArrays {
    pub fn new(groups: usize) -> Self {
        let groups = vec![GroupArrays::default(); groups];
        StepArrays { groups, ..StepArrays::default() }
    }

    pub fn seqs(&self) -> usize {
        self.past_tokens.len()
    }

    /// The first sequences that have one row each.
    pub fn singles(&self) -> usize {
        (0..self.seqs()).take_while(|&seq| self.live_rows(seq) == 1).count()
    }

    /// The other sequences in tiles: each one's sequence and its first row there. Those that see
    /// the most keys come first.
    pub fn chunk_tiles(&self) -> Vec<i32> {
        let mut tiles: Vec<[i32; 2]> = Vec::new();
        for seq in self.singles()..self.seqs() {
            let firsts = (0..self.live_rows(seq)).step_by(CHUNK_TILE_TOKENS);
            tiles.extend(firsts.map(|first| [seq as i32, first as i32]));
        }
        tiles.sort_by_key(|&[seq, first]| -(self.past_tokens[seq as usize] + first));
        tiles.concat()
    }

    fn live_rows(&self, seq: usize) -> usize {
        let end = self.live_starts.get(seq + 1).map_or(self.ids.len(), |&start| start as usize);
        end - self.live_starts[seq] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_sequences_are_cut_into_tiles_that_see_most_first() {
        let arrays = StepArrays {
            ids: vec![0; 1 + 1 + 200 + 1],
            past_tokens: vec![7, 8, 0, 500],
            live_starts: vec![0, 1, 2, 202],
            ..StepArrays::default()
        };
        assert_eq!(arrays.singles(), 2);
        assert_eq!(arrays.chunk_tiles(), [3, 0, 2, 128, 2, 0]);
        let alone = StepArrays { ids: vec![0], live_starts: vec![0], ..StepArrays::default() };
        assert_eq!((alone.seqs(), alone.chunk_tiles()), (0, Vec::new()));
    }
}
