//! Names of what requests have left behind.

/// What a request has computed and an engine keeps for later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KvHandle(pub u64);
