//! One row.

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StepRow {
    pub slot: i32,
    pub span: [i32; 4],
    pub position: i32,
}

/// One sequence of a step.
pub(crate) struct StepSeq<'a> {
    pub table: &'a [i32],
    /// Of its candidates.
    pub live_page: i32,
    pub past: usize,
    pub history_rows: usize,
}

/// The row `local` of a sequence; `position_rows` 0 for none.
pub(crate) fn row(
    seq: &StepSeq<'_>,
    local: usize,
    page_tokens: usize,
    position_rows: usize,
) -> StepRow {
    let at = seq.past + local.min(seq.history_rows);
    let position = position_rows.checked_sub(1).map_or(-1, |last| at.min(last) as i32);
    match local.checked_sub(seq.history_rows) {
        None => StepRow {
            slot: seq.table[at / page_tokens] * page_tokens as i32 + (at % page_tokens) as i32,
            span: [0, at as i32 + 1, 0, 0],
            position,
        },
        Some(candidate) => {
            let (candidate, tokens) = (candidate as i32, page_tokens as i32);
            StepRow {
                slot: -1 - (seq.live_page * tokens + candidate),
                span: [0, at as i32, candidate, candidate + 1],
                position,
            }
        }
    }
}
