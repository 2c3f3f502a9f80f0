//! What an engine is set up with.

use terrace_cache::{KvGroup, KvSpace, PrefixSeed};
use terrace_model::DynamicRope;

use crate::error::Error;
use crate::generate::scheduler::SchedulerConfig;
use crate::generate::tier_config::TierConfig;

#[derive(Clone, Debug)]
pub struct EngineConfig {
    pub scheduler: SchedulerConfig,
    /// Of sequences that keep every key and value as it is.
    pub kv_groups: Vec<KvGroup>,
    /// Pages of the pool that all sequences share.
    pub pages: usize,
    /// Pages of the store, where those go that leave the device.
    pub store_pages: usize,
    pub tiers: TierConfig,
    /// Names model and rope setting, so that pages of another engine are never taken for ours.
    pub prefix_seed: PrefixSeed,
    /// Positions are scaled for each sequence as it grows.
    pub dynamic_rope: Option<DynamicRope>,
    pub vocab: usize,
    /// Most tokens a prompt and its output may have together.
    pub context_tokens: usize,
    /// Most tokens a prompt may have.
    pub max_input_len: usize,
}

impl EngineConfig {
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.scheduler.check()?;
        let slots = |group: &KvGroup| self.pages.saturating_mul(group.page_tokens());
        if self.kv_groups.iter().map(slots).any(|slots| KvSpace::MAX_SLOTS < slots) {
            return Err(Error::BadOption {
                option: "kv pages",
                value: self.pages.to_string(),
                rule: "pages times tokens per page must stay below 2^31".into(),
            });
        }
        Ok(())
    }
}
