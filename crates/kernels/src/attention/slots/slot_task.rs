//! The task of attention over slots: some live rows of a sequence in one kv head.

use super::key_rotation::KeyRotation;
use crate::attention::blocks::{OutRows, QueryRows};
use crate::pages::slot_pages::{Side, SlotPages};

/// Live rows of one sequence that follow each other, and the query heads of one kv head.
pub(super) struct SlotTask<'a> {
    pub(super) q: QueryRows<'a>,
    /// As protected keys meet them.
    pub(super) rerotated: Option<QueryRows<'a>>,
    /// Each query's result is this task's alone.
    pub(super) out: OutRows<'a>,
    pub(super) queries: usize,
    /// Query heads of the kv head.
    pub(super) group: usize,
    /// Of the first row.
    pub(super) position: i32,
    pub(super) pages: &'a SlotPages<'a>,
    /// Slots that hold a token.
    pub(super) filled: usize,
    /// Slots whose keys are protected.
    pub(super) protected: usize,
    /// Of keys that are rotated on read.
    pub(super) rotation: Option<KeyRotation<'a>>,
    pub(super) scale: f32,
    pub(super) window: Option<usize>,
    /// `[filled]`, filled up to whole blocks: takes the weights in addition, if they are wanted.
    pub(super) weights: Option<&'a mut [f32]>,
    pub(super) scratch: &'a mut [f32],
}

impl SlotTask<'_> {
    /// When a query is, counted from the first row on.
    pub(super) fn token(&self, query: usize) -> i32 {
        (query / self.group) as i32
    }

    pub(super) fn load_key(&self, slot: usize, key: &mut [f32]) {
        self.pages.load(Side::Keys, slot, key);
        if let Some(rotation) = self.rotation {
            rotation.rotate_one(key, self.pages.position(slot));
        }
    }

    pub(super) fn sees(&self, query: usize, slot: usize) -> bool {
        let position = self.pages.position(slot);
        let distance = self.position + self.token(query) - position;
        let is_near = self.window.is_none_or(|window| (distance as usize) < window);
        0 <= position && 0 <= distance && is_near
    }
}
