//! The moves of pages that have not arrived.

use std::collections::{BTreeMap, HashMap, HashSet};

use terrace_cache::placement::Claims;
use terrace_cache::{
    Direction, KvSpace, MoveId, PageId, PageKey, PageMove, StorePageId, StoreSpace,
};

use crate::generate::kv_handle::KvHandle;
use crate::generate::seq_id::SeqId;

/// Whose pages are moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MoveOwner {
    /// All that a sequence remembers.
    Sequence(SeqId),
    Handle(KvHandle),
    /// A sequence's known prefix.
    Prefix(SeqId),
    /// Content of pages that nobody owns, one for each page.
    Content(Vec<(PageKey, Claims)>),
}

/// The moves that have not arrived. They hold their pages on both sides, so that nobody takes them
/// even when the owner is gone.
#[derive(Default)]
pub(crate) struct MovesUnderWay {
    next_id: u64,
    moves: BTreeMap<MoveId, (PageMove, MoveOwner)>,
    /// Content on its way to the store.
    leaving: HashSet<PageKey>,
}

impl MovesUnderWay {
    pub(crate) fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }

    /// A new move, which has become a holder of its pages on the device; those of the store get it
    /// as one more.
    pub(crate) fn begin(
        &mut self,
        owner: MoveOwner,
        direction: Direction,
        pages: Vec<(PageId, StorePageId)>,
        store: &mut StoreSpace,
    ) -> PageMove {
        self.next_id += 1;
        let id = MoveId(self.next_id);
        pages.iter().for_each(|(_, stored)| store.share(&[*stored]));
        let begun = PageMove { id, direction, pages };
        if let MoveOwner::Content(content) = &owner {
            self.leaving.extend(content.iter().map(|(key, _)| *key));
        }
        self.moves.insert(id, (begun.clone(), owner));
        begun
    }

    /// A move is over: its pages have one holder less.
    pub(crate) fn end(
        &mut self,
        id: MoveId,
        space: &mut KvSpace,
        store: &mut StoreSpace,
    ) -> (PageMove, MoveOwner) {
        let (ended, owner) = self.moves.remove(&id).expect("the move is under way");
        if let MoveOwner::Content(content) = &owner {
            content.iter().for_each(|(key, _)| assert!(self.leaving.remove(key), "it leaves once"));
        }
        for (page, stored) in &ended.pages {
            space.release_pages(&[*page]);
            store.release(&[*stored]);
        }
        (ended, owner)
    }

    /// Whose pages a move moves, and which these are.
    pub(crate) fn get(&self, id: MoveId) -> (&PageMove, &MoveOwner) {
        let (found, owner) = self.moves.get(&id).expect("the move is under way");
        (found, owner)
    }

    /// Whether this content is on its way to the store.
    pub(crate) fn is_leaving(&self, key: &PageKey) -> bool {
        self.leaving.contains(key)
    }

    /// Pages of content on its way to the store.
    pub(crate) fn leaving_content(&self) -> usize {
        self.leaving.len()
    }

    pub(crate) fn ids(&self) -> Vec<MoveId> {
        self.moves.keys().copied().collect()
    }

    /// Whether the bytes of one of these have not reached the store yet.
    pub(crate) fn are_leaving(&self, stored: impl Iterator<Item = StorePageId>) -> bool {
        let out = self.moves.values().filter(|(it, _)| it.direction == Direction::SwapOut);
        let leaving: Vec<_> = out.flat_map(|(it, _)| &it.pages).map(|(_, page)| *page).collect();
        stored.into_iter().any(|page| leaving.contains(&page))
    }

    /// Pages that nobody else uses: they can be taken when their moves have arrived.
    pub(crate) fn pages_to_come(&self, space: &KvSpace) -> usize {
        let mut moves_of: HashMap<PageId, u32> = HashMap::new();
        for page in self.held() {
            *moves_of.entry(page).or_default() += 1;
        }
        moves_of.into_iter().filter(|(page, moves)| space.users(*page) == *moves).count()
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = PageId> {
        self.moves.values().flat_map(|(it, _)| it.pages.iter().map(|(page, _)| *page))
    }

    pub(crate) fn held_in_store(&self) -> impl Iterator<Item = StorePageId> {
        self.moves.values().flat_map(|(it, _)| it.pages.iter().map(|(_, stored)| *stored))
    }
}
