//! Which positions a query sees.

use super::args::ReplayQueries;

/// The score of a slot that a query does not see: its exponential is 0, whatever is subtracted.
pub(super) const HIDDEN: f32 = f32::MIN / 4.0;

#[derive(Clone, Copy)]
pub(super) struct Visible {
    oldest: i32,
    newest: i32,
}

impl Visible {
    /// Of the chunk's query `token`.
    pub(super) fn of(queries: &ReplayQueries<'_>, token: usize) -> Self {
        let newest = (queries.at.position + token) as i32;
        let window = queries.window.and_then(|window| i32::try_from(window).ok());
        let oldest = window.map_or(0, |window| newest.saturating_sub(window - 1).max(0));
        Visible { oldest, newest }
    }

    /// The oldest and the newest position that is seen, as vectors compare them with others.
    #[inline(always)]
    pub(super) fn bounds(self) -> [f32; 2] {
        [self.oldest as f32, self.newest as f32]
    }

    #[inline(always)]
    pub(super) fn sees(self, position: i32) -> bool {
        (self.oldest <= position) & (position <= self.newest)
    }

    /// Scales scores and hides those of slots that are not seen.
    #[inline(always)]
    pub(super) fn scale(self, scores: &mut [f32], positions: &[i32], scale: f32) {
        for (score, position) in scores.iter_mut().zip(positions) {
            *score = if self.sees(*position) { *score * scale } else { HIDDEN };
        }
    }
}
