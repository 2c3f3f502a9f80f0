//! How an engine uses the levels below its device.

use terrace_cache::PageKey;
use terrace_cache::placement::PlacementRule;

#[derive(Clone, Debug, Default)]
pub struct TierConfig {
    /// Which idle pages of the device and of the store go first.
    pub placement: PlacementRule,
    /// Pages of the device that can always be taken without losing content: idle ones are copied to
    /// the store ahead of need. None where the store is for preempted sequences alone.
    pub device_reserve: usize,
    /// The same for pages of the store and the tiers below.
    pub store_reserve: usize,
    /// Copies pages below as soon as they are final.
    pub writes_through: bool,
    /// How long a sequence waits for pages of the lower tiers before it computes what is missing,
    /// while they keep coming.
    pub wait_ms: u64,
    /// Most pages of one copy that is made ahead of need, and of one read or write of a tier.
    pub batch_pages: usize,
    /// Pages of the store that pinned handles may hold.
    pub pin_pages: usize,
    /// Bytes of a page, for messages.
    pub page_bytes: usize,
    /// The tiers below the store, the fastest first; what each has, where that is known.
    pub lower: Vec<Option<Vec<PageKey>>>,
}
