//! What is known of the tiers below host memory: which content each has.
//!
//! A tier of this process alone is *listed*: what it has is known at every moment. Of a tier that
//! others write too only hints are known, from look-ups and from what was written there; a fetch
//! may find nothing, and older hints are forgotten.

use std::collections::{HashSet, VecDeque};

use crate::kv::PageKey;

/// A tier below host memory, the fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TierId(pub u8);

impl TierId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Default)]
pub struct LowerTiers {
    tiers: Vec<KnownContent>,
    now_ms: u64,
}

struct KnownContent {
    keys: HashSet<PageKey>,
    /// Of a tier that is not listed: the order in which they became known, also of those gone.
    order: Option<VecDeque<PageKey>>,
    /// It has failed, and is left alone until then.
    paused_until_ms: u64,
}

/// Hints kept of one tier: 32 bytes each, twice.
const HINTS_MOST: usize = 1 << 19;

impl LowerTiers {
    /// Adds a tier below those that are there; `listed` is all it has, if that is known.
    pub fn add(&mut self, listed: Option<Vec<PageKey>>) -> TierId {
        let order = if listed.is_none() { Some(VecDeque::new()) } else { None };
        let keys = listed.into_iter().flatten().collect();
        self.tiers.push(KnownContent { keys, order, paused_until_ms: 0 });
        TierId(u8::try_from(self.tiers.len() - 1).expect("a handful of tiers"))
    }

    pub fn is_empty(&self) -> bool {
        self.tiers.is_empty()
    }

    /// Time goes on, for tiers that are left alone for a while.
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// The tier has failed: until then nothing is asked of it.
    pub fn pause(&mut self, tier: TierId, until_ms: u64) {
        self.tiers[tier.index()].paused_until_ms = until_ms;
    }

    /// The fastest tier that has the content, as far as is known, and can be asked.
    pub fn find(&self, key: &PageKey) -> Option<TierId> {
        self.working().find(|(_, tier)| tier.keys.contains(key)).map(|(id, _)| id)
    }

    /// Whether a tier has the content, as far as is known.
    pub fn has(&self, key: &PageKey) -> bool {
        self.tiers.iter().any(|tier| tier.keys.contains(key))
    }

    /// The tiers that have not got the content, as far as is known, and can be asked.
    pub fn lacking(&self, key: &PageKey) -> Vec<TierId> {
        let lacking = self.working().filter(|(_, tier)| !tier.keys.contains(key));
        lacking.map(|(id, _)| id).collect()
    }

    /// Tiers that can be asked.
    pub fn any_works(&self) -> bool {
        self.working().next().is_some()
    }

    /// Tiers whose content is asked for by look-ups.
    pub fn unlisted(&self) -> Vec<TierId> {
        let unlisted = self.working().filter(|(_, tier)| tier.order.is_some());
        unlisted.map(|(id, _)| id).collect()
    }

    fn working(&self) -> impl Iterator<Item = (TierId, &KnownContent)> {
        let tiers = self.tiers.iter().enumerate().map(|(index, tier)| (TierId(index as u8), tier));
        tiers.filter(|(_, tier)| tier.paused_until_ms <= self.now_ms)
    }

    pub fn insert(&mut self, tier: TierId, key: PageKey) {
        let KnownContent { keys, order, .. } = &mut self.tiers[tier.index()];
        let is_new = keys.insert(key);
        if let (Some(order), true) = (order, is_new) {
            order.push_back(key);
            if HINTS_MOST < order.len() {
                let oldest = order.pop_front().expect("it is not empty");
                keys.remove(&oldest);
            }
        }
    }

    /// No tier has content whose key begins so.
    pub fn remove_prefix(&mut self, prefix: &[u8]) {
        for tier in &mut self.tiers {
            tier.keys.retain(|key| !key.as_bytes().starts_with(prefix));
        }
    }

    /// All tiers, also those that are left alone for a while.
    pub fn ids(&self) -> impl Iterator<Item = TierId> + use<> {
        (0..self.tiers.len() as u8).map(TierId)
    }

    /// The tier has not got it, or no longer.
    pub fn remove(&mut self, tier: TierId, key: &PageKey) {
        self.tiers[tier.index()].keys.remove(key);
    }
}
