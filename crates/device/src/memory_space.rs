//! Who can reach an address.

/// Where the bytes behind an address lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemorySpace {
    Host,
    Device,
}
