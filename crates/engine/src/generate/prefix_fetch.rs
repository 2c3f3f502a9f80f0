//! What a sequence misses of a prefix that is known: pages on their way from lower levels.
//!
//! It may wait for them, or compute from the front while they come from the back. A page is there,
//! or missing, or missing and on its way to the device. What is there is skipped; what is missing
//! is computed if it has not come by the time. Invariant: nobody writes a page while it is on its
//! way, and no page is brought that has begun to be computed.

use std::collections::{BTreeMap, BTreeSet};

use terrace_cache::{FoundPage, MoveId, PrefixMatch};

pub(crate) struct PrefixFetch {
    /// Tokens of the known prefix.
    end: usize,
    /// Table and logical page of what is not there, and the move that brings it.
    missing: BTreeMap<(usize, usize), Option<MoveId>>,
    /// Until then it waits; afterwards it computes what is missing.
    pub(crate) waits_until_ms: u64,
}

impl PrefixFetch {
    /// Of a match that is not all on the device.
    pub(crate) fn new(matched: &PrefixMatch, waits_until_ms: u64) -> Self {
        let mut missing = BTreeMap::new();
        for (table, pages) in matched.pages.iter().enumerate() {
            for (index, found) in pages.iter().enumerate() {
                if matches!(found, FoundPage::Host(_) | FoundPage::Below(_)) {
                    missing.insert((table, index), None);
                }
            }
        }
        PrefixFetch { end: matched.tokens, missing, waits_until_ms }
    }

    /// Forgets of a table what lies before logical page `first`: it is computed already.
    pub(crate) fn skip_before(&mut self, first: usize) {
        self.missing.retain(|(_, index), _| first <= *index);
    }

    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// Whether nothing is missing.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }

    /// Whether a page is on its way to the device.
    pub(crate) fn has_moves(&self) -> bool {
        self.missing.values().any(Option::is_some)
    }

    /// The moves that bring all that is missing; `None` if something is not on its way.
    pub(crate) fn moves_of_all(&self) -> Option<BTreeSet<MoveId>> {
        self.missing.values().copied().collect()
    }

    /// What is missing and not on its way, the last page first.
    pub(crate) fn wanted(&self) -> Vec<(usize, usize)> {
        let wanted = self.missing.iter().rev().filter(|(_, moved)| moved.is_none());
        wanted.map(|(page, _)| *page).collect()
    }

    /// These are on their way.
    pub(crate) fn begin(&mut self, pages: &[(usize, usize)], id: MoveId) {
        for page in pages {
            let earlier = self.missing.insert(*page, Some(id));
            assert_eq!(earlier, Some(None), "page {page:?} is missing and not on its way");
        }
    }

    /// A page is there.
    pub(crate) fn found(&mut self, page: (usize, usize)) {
        self.missing.remove(&page);
    }

    /// A move has arrived.
    pub(crate) fn arrived(&mut self, id: MoveId) {
        self.missing.retain(|_, moved| *moved != Some(id));
    }

    /// A move was lost.
    pub(crate) fn lost(&mut self, id: MoveId) {
        for moved in self.missing.values_mut().filter(|moved| **moved == Some(id)) {
            *moved = None;
        }
    }

    /// Where a sequence with one table, all computed before `position`, goes on: past what is
    /// there. Where nothing is there, at `position`.
    pub(crate) fn after_present(&self, position: usize, page_tokens: usize) -> usize {
        if !position.is_multiple_of(page_tokens) || self.end <= position {
            return position;
        }
        let next = self.missing.range((0, position / page_tokens)..).next();
        next.map_or(self.end, |((_, index), _)| index * page_tokens)
    }

    /// How many tokens from `position` on a sequence with one table may compute: those of pages
    /// that are missing and not on their way. Past the known prefix there is no limit.
    pub(crate) fn computable(&self, position: usize, page_tokens: usize) -> usize {
        if self.end <= position {
            return usize::MAX;
        }
        let first = position / page_tokens;
        let is_free = |index: usize| self.missing.get(&(0, index)) == Some(&None);
        // A page that has begun to be computed is finished.
        let begun = usize::from(!position.is_multiple_of(page_tokens));
        let pages = self.end / page_tokens;
        let stop = (first + begun..pages).find(|index| !is_free(*index));
        stop.map_or(usize::MAX, |index| index * page_tokens - position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of pages of four tokens: `.` there, `m` missing, `w` on its way.
    fn fetch(pages: &str) -> PrefixFetch {
        let missing = pages.chars().enumerate().filter_map(|(index, page)| match page {
            '.' => None,
            'm' => Some(((0, index), None)),
            'w' => Some(((0, index), Some(MoveId(1)))),
            other => panic!("{other}"),
        });
        PrefixFetch { end: 4 * pages.len(), missing: missing.collect(), waits_until_ms: 0 }
    }

    #[test]
    fn what_is_there_is_skipped() {
        for (pages, position, goes_on) in [
            ("..mm", 0, 8),
            ("..mm", 8, 8),
            (".m.m", 8, 12),
            ("....", 0, 16),
            ("m...", 4, 16),
            ("m...", 2, 2),
            ("..ww", 0, 8),
            ("..", 9, 9),
        ] {
            assert_eq!(fetch(pages).after_present(position, 4), goes_on, "{pages} {position}");
        }
    }

    #[test]
    fn what_is_missing_may_be_computed_up_to_what_is_there_or_on_its_way() {
        for (pages, position, tokens) in [
            ("mm..", 0, 8),
            ("mm..", 3, 5),
            ("mmw.", 0, 8),
            ("w...", 0, 0),
            ("mmmm", 0, usize::MAX),
            ("mm..", 16, usize::MAX),
            // The first page has begun; the second is there.
            ("m.", 2, 2),
        ] {
            assert_eq!(fetch(pages).computable(position, 4), tokens, "{pages} {position}");
        }
    }

    #[test]
    fn pages_come_the_last_one_first() {
        let mut fetch = fetch("m.mm");
        assert_eq!(fetch.wanted(), [(0, 3), (0, 2), (0, 0)]);
        fetch.begin(&[(0, 3), (0, 2)], MoveId(7));
        assert_eq!(fetch.wanted(), [(0, 0)]);
        assert!(fetch.has_moves());
        assert_eq!(fetch.moves_of_all(), None);
        fetch.lost(MoveId(7));
        assert_eq!(fetch.wanted(), [(0, 3), (0, 2), (0, 0)]);
        fetch.begin(&[(0, 3), (0, 2)], MoveId(8));
        fetch.begin(&[(0, 0)], MoveId(9));
        assert_eq!(fetch.moves_of_all(), Some([MoveId(8), MoveId(9)].into()));
        fetch.arrived(MoveId(8));
        fetch.skip_before(1);
        assert!(fetch.is_complete());
    }
}
