//! Contents that have left a level, the longest gone first to be forgotten.
//!
//! A ghost is a hash, not bytes: it says that this content was here not long ago.

use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
pub(super) struct GhostList {
    /// When each content left, counted in contents that did.
    turns: HashMap<u64, u64>,
    contents: BTreeMap<u64, u64>,
    turn: u64,
}

impl GhostList {
    pub(super) fn len(&self) -> usize {
        self.contents.len()
    }

    pub(super) fn contains(&self, content: u64) -> bool {
        self.turns.contains_key(&content)
    }

    /// The content has left just now.
    pub(super) fn push_newest(&mut self, content: u64) {
        self.remove(content);
        self.turn += 1;
        self.turns.insert(content, self.turn);
        self.contents.insert(self.turn, content);
    }

    /// Returns whether it was there.
    pub(super) fn remove(&mut self, content: u64) -> bool {
        let turn = self.turns.remove(&content);
        turn.and_then(|turn| self.contents.remove(&turn)).is_some()
    }

    pub(super) fn forget_oldest(&mut self) {
        let oldest = self.contents.pop_first();
        let (_, content) = oldest.expect("a ghost is forgotten where there is one");
        self.turns.remove(&content);
    }

    /// Panics unless contents and turns stand for each other one to one.
    pub(super) fn check(&self) {
        assert_eq!(self.turns.len(), self.contents.len(), "turns and contents of ghosts");
        for (turn, content) in &self.contents {
            assert_eq!(self.turns.get(content), Some(turn), "the turn of content {content}");
        }
    }
}
