//! What requests have left behind, by handle: pages that outlive their requests.
//!
//! It holds pages of the device as long as nobody needs them. Then it is demoted to the store, the
//! longest unused first, or forgotten where the store has no room: its tokens are known, and are
//! computed again when a request goes on from it. What is pinned, saved or on its way to that
//! stays.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_tiers::HandleId;

use crate::error::Error;
use crate::generate::kept_handle::KeepAs;
use crate::generate::kv_handle::KvHandle;
use crate::generate::past::{Origin, Past};
use crate::generate::request::RequestId;
use crate::generate::seq_cache::SeqCache;
use crate::generate::seq_id::SeqId;
use crate::generate::seq_memory::SeqMemory;

#[derive(Default)]
pub(crate) struct KeptMemories {
    next_handle: u64,
    uses: u64,
    /// Of requests that still run.
    pending: BTreeMap<RequestId, (KvHandle, Option<KeepAs>)>,
    /// Of handles that users hold, whether or not anything of them is here.
    named: BTreeMap<HandleId, KvHandle>,
    kept: BTreeMap<KvHandle, Kept>,
}

pub(crate) struct Kept {
    pub(crate) memory: SeqMemory,
    pub(crate) cache: Option<Arc<SeqCache>>,
    pub(crate) cache_salt: String,
    pub(crate) origin: Origin,
    /// The sequence that left it, if it was not loaded; a step of it may be under way.
    pub(crate) left_by: Option<SeqId>,
    /// It is in the store, and stays there.
    pub(crate) is_pinned: bool,
    /// It is to be pinned or saved.
    pub(crate) jobs: usize,
    /// Larger was used later.
    last_use: u64,
}

impl Kept {
    pub(crate) fn new(
        memory: SeqMemory,
        cache: Option<Arc<SeqCache>>,
        cache_salt: String,
        origin: Origin,
        left_by: Option<SeqId>,
    ) -> Self {
        let (is_pinned, jobs, last_use) = (false, 0, 0);
        Kept { memory, cache, cache_salt, origin, left_by, is_pinned, jobs, last_use }
    }

    /// What a request goes on from.
    pub(crate) fn past(&self, id: Option<HandleId>) -> Past {
        Past {
            id,
            tokens: self.memory.tokens.clone(),
            row_kind_ends: self.memory.row_kind_ends.clone(),
            scaled_end: self.memory.scaled_end,
            cache: self.cache.clone(),
            cache_salt: self.cache_salt.clone(),
            origin: self.origin.clone(),
            file: None,
        }
    }

    /// Neither its room nor its bytes are given away.
    fn is_fixed(&self) -> bool {
        self.is_pinned || 0 < self.jobs
    }
}

impl KeptMemories {
    /// A handle for what the request will have left when it ends.
    pub(crate) fn expect(&mut self, request: RequestId) -> KvHandle {
        let next = &mut self.next_handle;
        let new = || {
            *next += 1;
            (KvHandle(*next), None)
        };
        self.pending.entry(request).or_insert_with(new).0
    }

    /// The same under a name, with what is done with it then.
    pub(crate) fn expect_as(&mut self, request: RequestId, keep: KeepAs) {
        let handle = self.named(keep.id);
        self.pending.insert(request, (handle, Some(keep)));
    }

    /// What is kept under a name, or will be.
    pub(crate) fn named(&mut self, id: HandleId) -> KvHandle {
        let next = &mut self.next_handle;
        *self.named.entry(id).or_insert_with(|| {
            *next += 1;
            KvHandle(*next)
        })
    }

    pub(crate) fn is_named(&self, handle: KvHandle) -> bool {
        self.named.values().any(|named| *named == handle)
    }

    /// The name is gone, and what was kept under it.
    pub(crate) fn remove_named(&mut self, id: HandleId) -> Option<Kept> {
        let handle = self.named.remove(&id)?;
        self.remove(handle)
    }

    /// Named ones with pages.
    pub(crate) fn resident(&self) -> impl Iterator<Item = HandleId> {
        self.named.iter().filter(|(_, handle)| self.has_pages(**handle)).map(|(id, _)| *id)
    }

    pub(crate) fn has_pages(&self, handle: KvHandle) -> bool {
        self.kept.get(&handle).is_some_and(|kept| !kept.memory.tables.is_empty())
    }

    pub(crate) fn is_on_device(&self, handle: KvHandle) -> bool {
        self.kept.get(&handle).is_some_and(|kept| kept.memory.is_on_device())
    }

    /// Pages of the store that pinned ones hold.
    pub(crate) fn pinned_pages(&self) -> usize {
        let pinned = self.kept.values().filter(|kept| kept.is_pinned);
        pinned.map(|kept| kept.memory.stored().count()).sum()
    }

    /// Pages of the store that those which may leave hold, though others may hold some of them too.
    pub(crate) fn forgettable_pages(&self) -> usize {
        let can_leave = self.kept.values().filter(|kept| !kept.is_fixed());
        can_leave.map(|kept| kept.memory.stored().count()).sum()
    }

    /// The handle of a request that ends now, if somebody wants what it leaves.
    pub(crate) fn take_expected(
        &mut self,
        request: RequestId,
    ) -> Option<(KvHandle, Option<KeepAs>)> {
        self.pending.remove(&request)
    }

    pub(crate) fn insert(&mut self, handle: KvHandle, kept: Kept) {
        self.uses += 1;
        self.kept.insert(handle, Kept { last_use: self.uses, ..kept });
    }

    /// Puts back what was taken out, as long unused as it was.
    pub(crate) fn insert_unused(&mut self, handle: KvHandle, kept: Kept) {
        self.kept.insert(handle, kept);
    }

    /// What a request goes on from.
    pub(crate) fn find(&mut self, handle: KvHandle) -> Result<&mut Kept, Error> {
        if self.pending.values().any(|(pending, _)| *pending == handle) {
            return Err(Error::HandleNotReady { handle: handle.0 });
        }
        self.uses += 1;
        let kept = self.kept.get_mut(&handle).ok_or(Error::UnknownHandle { handle: handle.0 })?;
        kept.last_use = self.uses;
        Ok(kept)
    }

    pub(crate) fn remove(&mut self, handle: KvHandle) -> Option<Kept> {
        self.pending.retain(|_, (pending, _)| *pending != handle);
        self.kept.remove(&handle)
    }

    pub(crate) fn get_mut(&mut self, handle: KvHandle) -> Option<&mut Kept> {
        self.kept.get_mut(&handle)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Kept> {
        self.kept.values_mut()
    }

    pub(crate) fn memories(&self) -> impl Iterator<Item = &SeqMemory> {
        self.kept.values().map(|kept| &kept.memory)
    }

    /// The longest unused of those that `matches` and may leave.
    pub(crate) fn oldest(&self, matches: impl Fn(&SeqMemory) -> bool) -> Option<KvHandle> {
        let can_leave = |kept: &Kept| !kept.is_fixed() && matches(&kept.memory);
        let found = self.kept.iter().filter(|(_, kept)| can_leave(kept));
        found.min_by_key(|(_, kept)| kept.last_use).map(|(handle, _)| *handle)
    }
}
