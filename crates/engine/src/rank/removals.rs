//! Users, or all of them, that are to be gone from every level.

use terrace_cache::TierId;
use terrace_cache::users::UserKey;

/// Names a removal inside one engine; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RemovalId(pub u64);

/// What is to be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// All users where there is none.
    pub user: Option<UserKey>,
    /// What the content keys of all its pages begin with.
    pub prefix: Vec<u8>,
}

/// What went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Users and tokens that were known here.
    pub users: usize,
    pub tokens: usize,
    /// Of each level below host memory, in their order.
    pub lower: Vec<RemovedRecords>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedRecords {
    pub records: usize,
    /// The level did not answer: what it has is still there.
    pub failed: bool,
}

/// Those that have not ended.
#[derive(Default)]
pub(super) struct Removals {
    next_id: u64,
    pub(super) under_way: Vec<RemovalUnderWay>,
}

pub(super) struct RemovalUnderWay {
    pub(super) id: RemovalId,
    pub(super) removal: Removal,
    /// Tiers that have not answered; `None` until the removal begins.
    pub(super) outstanding: Option<usize>,
    pub(super) removed: Removed,
}

impl Removals {
    pub(super) fn add(&mut self, removal: Removal) -> RemovalId {
        self.next_id += 1;
        let id = RemovalId(self.next_id);
        let removed = Removed::default();
        self.under_way.push(RemovalUnderWay { id, removal, outstanding: None, removed });
        id
    }

    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether requests of a user wait until it is gone.
    pub(super) fn concerns(&self, user: &UserKey) -> bool {
        let of_user = |it: &Removal| it.user.as_ref().is_none_or(|other| other == user);
        self.under_way.iter().any(|it| of_user(&it.removal))
    }

    /// A tier is done with one.
    pub(super) fn answered(&mut self, id: RemovalId, tier: TierId, records: RemovedRecords) {
        let found = self.under_way.iter_mut().find(|it| it.id == id);
        let it = found.expect("the removal is under way");
        it.removed.lower[tier.index()] = records;
        it.outstanding = it.outstanding.map(|outstanding| outstanding - 1);
    }

    /// Those that have ended.
    pub(super) fn take_ended(&mut self) -> Vec<(RemovalId, Removed)> {
        let ended = self.under_way.extract_if(.., |it| it.outstanding == Some(0));
        ended.map(|it| (it.id, it.removed)).collect()
    }
}
