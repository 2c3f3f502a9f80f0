//! Which rows of the position and time tables are added to tokens.

/// Positions counted from the history's start (recsys-examples). All candidates have the one
/// behind the history, and what is past the table's end has its last row.
///
/// A token of the history keeps its row as the history grows, so it can be cached.
pub fn position_row(position: usize, history: usize, rows: usize) -> usize {
    position.min(history).min(rows - 1)
}

/// Positions counted back from the first candidate (generative-recommenders). Tokens of context
/// count from 0. A token's row changes as the history grows, so nothing can be cached.
pub fn position_row_backward(
    position: usize,
    context: usize,
    history: usize,
    rows: usize,
) -> usize {
    if position < context {
        return position;
    }
    (history - position.min(history) + context).min(rows - 1)
}

/// How a time before the last event becomes a row of the time table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeScale {
    Sqrt,
    Log,
}

/// Seconds of a unit of time.
const UNIT: f32 = 60.0;

/// The row of the time table for an event that happened `seconds` before the last one; at most
/// `last`. The original's models are trained with the width of a row less one for that, where its
/// table's last row must have been meant.
pub fn time_row(seconds: f32, scale: TimeScale, last: usize) -> usize {
    let units = seconds.max(1e-6) / UNIT;
    let scaled = match scale {
        TimeScale::Sqrt => units.sqrt(),
        TimeScale::Log => units.ln(),
    };
    (scaled.max(0.0) as usize).min(last)
}
