//! What the rows of a step are, made on the device from what its sequences are: a step of thousands
//! of rows is then a few numbers on the host.
//!
//! A history's rows see what is before them, candidates the history and themselves.
//!
//! Roofline: 28 bytes are written for each row; bound by the launch.

pub(crate) mod cuda;
pub(crate) mod reference;

use terrace_device::{DType, View, ViewMut};

pub struct StepRowsArgs<'a> {
    /// i32 `[seqs, table_pages]`
    pub block_tables: View<'a>,
    /// i32 `[seqs, live_table_pages]`: pages of candidates, one after the other
    pub live_tables: View<'a>,
    /// i32 `[seqs]`: tokens of the history that are in slots
    pub past_tokens: View<'a>,
    /// i32 `[seqs + 1]`
    pub live_starts: View<'a>,
    /// i32 `[seqs]`: how many rows are of the history
    pub history_rows: View<'a>,
    pub page_tokens: usize,
    /// Rows of the position table; 0 where there is none.
    pub position_rows: usize,
    /// i32 `[rows]`: the sequence; -1 behind the last one
    pub row_seqs: ViewMut<'a>,
    /// i32 `[rows]`: where keys and values go; candidates have negative ones
    pub commit_slots: ViewMut<'a>,
    /// i32 `[rows, 4]`: what is seen of the history, and of the candidates
    pub spans: ViewMut<'a>,
    /// i32 `[rows]`: -1 where there is no table
    pub positions: ViewMut<'a>,
}

impl StepRowsArgs<'_> {
    /// Rows, sequences, and pages of both tables.
    fn check(&self) -> [usize; 4] {
        let ([rows], [seqs]) = (self.row_seqs.dims(), self.past_tokens.dims());
        let ([tabled, table_pages], [live, live_pages]) =
            (self.block_tables.dims(), self.live_tables.dims());
        assert_eq!([tabled, live], [seqs; 2], "tables of sequences");
        assert_eq!(self.live_starts.dims(), [seqs + 1], "starts of sequences");
        assert_eq!(self.history_rows.dims(), [seqs], "rows of histories");
        assert_eq!(self.commit_slots.dims(), [rows], "slots of rows");
        assert_eq!(self.spans.dims(), [rows, 4], "what rows see");
        assert_eq!(self.positions.dims(), [rows], "positions of rows");
        let read = [self.block_tables, self.live_tables, self.past_tokens, self.live_starts];
        assert!(read.iter().all(|it| it.dtype() == DType::I32), "types of step_rows");
        [rows, seqs, table_pages, live_pages]
    }
}
