//! What requests have left behind, by handle: pages that outlive their requests.
//!
//! It holds pages of the device as long as nobody needs them. Then it is demoted to the store, the
//! longest unused first, or forgotten where the store has no room: its tokens are known, and are
//! computed again when a request goes on from it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Error;
use crate::generate::kv_handle::KvHandle;
use crate::generate::request::RequestId;
use crate::generate::seq_cache::SeqCache;
use crate::generate::seq_id::SeqId;
use crate::generate::seq_memory::SeqMemory;

#[derive(Default)]
pub(crate) struct KeptMemories {
    next_handle: u64,
    uses: u64,
    /// Of requests that still run.
    pending: BTreeMap<RequestId, KvHandle>,
    kept: BTreeMap<KvHandle, Kept>,
}

pub(crate) struct Kept {
    pub(crate) memory: SeqMemory,
    pub(crate) cache: Option<Arc<SeqCache>>,
    pub(crate) cache_salt: String,
    /// The sequence that left it; a step of it may be under way.
    pub(crate) left_by: SeqId,
    /// Larger was used later.
    last_use: u64,
}

impl Kept {
    pub(crate) fn new(
        memory: SeqMemory,
        cache: Option<Arc<SeqCache>>,
        cache_salt: String,
        left_by: SeqId,
    ) -> Self {
        Kept { memory, cache, cache_salt, left_by, last_use: 0 }
    }
}

impl KeptMemories {
    /// A handle for what the request will have left when it ends.
    pub(crate) fn expect(&mut self, request: RequestId) -> KvHandle {
        let next = &mut self.next_handle;
        *self.pending.entry(request).or_insert_with(|| {
            *next += 1;
            KvHandle(*next)
        })
    }

    /// The handle of a request that ends now, if somebody wants what it leaves.
    pub(crate) fn take_expected(&mut self, request: RequestId) -> Option<KvHandle> {
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
        if self.pending.values().any(|pending| *pending == handle) {
            return Err(Error::HandleNotReady { handle: handle.0 });
        }
        self.uses += 1;
        let kept = self.kept.get_mut(&handle).ok_or(Error::UnknownHandle { handle: handle.0 })?;
        kept.last_use = self.uses;
        Ok(kept)
    }

    pub(crate) fn remove(&mut self, handle: KvHandle) -> Option<Kept> {
        self.pending.retain(|_, pending| *pending != handle);
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

    /// The longest unused of those that `matches`.
    pub(crate) fn oldest(&self, matches: impl Fn(&SeqMemory) -> bool) -> Option<KvHandle> {
        let found = self.kept.iter().filter(|(_, kept)| matches(&kept.memory));
        found.min_by_key(|(_, kept)| kept.last_use).map(|(handle, _)| *handle)
    }
}
