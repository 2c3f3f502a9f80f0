//! The cache of a model's rows on each of its devices.

use std::time::Duration;

use serde_json::Value;

use super::fields::{Choice, Fields};
use super::generation::Generation;
use super::scalar::Reals;

#[derive(Clone, Debug, PartialEq)]
pub struct GpuCacheConfig {
    pub kind: GpuCacheKind,
    /// The share of each table's rows that the cache has room for.
    pub share: f64,
    /// From this share of hits on, rows that are missing come later, and defaults are used in the
    /// meantime. Above 1 this never happens.
    pub hit_rate_threshold: f64,
    /// When all rows are looked up again once after the start; `None` for never.
    pub refresh_delay: Option<Duration>,
    /// How often all rows are looked up again; `None` for never.
    pub refresh_interval: Option<Duration>,
    /// The share of the cache in one step of a refresh; 0 for no refresh and no filling at the
    /// start.
    pub refresh_share: f64,
    /// Whether the cache is filled at the start.
    pub is_filled_at_start: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuCacheKind {
    /// Rows come and go by use.
    Dynamic,
    /// All rows stay on the device.
    Static,
    /// On the device as many as fit, the others in the host's memory within its reach.
    Uvm,
}

const KINDS: [Choice<GpuCacheKind>; 3] = [
    (&["dynamic"], GpuCacheKind::Dynamic),
    (&["static"], GpuCacheKind::Static),
    (&["uvm"], GpuCacheKind::Uvm),
];

impl GpuCacheConfig {
    /// `None` where the model has no cache, and its settings mean nothing.
    pub(super) fn read(fields: &mut Fields<'_>, generation: Generation) -> Option<Self> {
        let is_enabled = fields.flag("gpucache").unwrap_or(true);
        let is_static = fields.flag("use_static_table").unwrap_or(false);
        let kind = Self::read_kind(fields);
        let not_zero = |duration: Duration| !duration.is_zero();
        let refresh_share = fields.real("cache_refresh_percentage_per_iteration", Reals::Fraction);
        let threshold = fields.real("hit_rate_threshold", Reals::NotNegative);
        let config = GpuCacheConfig {
            kind: if is_static { GpuCacheKind::Static } else { kind },
            share: fields.real("gpucacheper", Reals::Fraction).unwrap_or(0.5),
            hit_rate_threshold: threshold.unwrap_or(0.9),
            refresh_delay: fields.seconds("refresh_delay").filter(|&delay| not_zero(delay)),
            refresh_interval: fields.seconds("refresh_interval").filter(|&time| not_zero(time)),
            refresh_share: refresh_share.unwrap_or(generation.refresh_share()),
            is_filled_at_start: fields.flag("init_ec").unwrap_or(true),
        };
        let is_refreshed = config.refresh_interval.is_some() || config.refresh_delay.is_some();
        if is_enabled && is_refreshed && config.refresh_share == 0.0 {
            let text = "is 0, so the cache is never refreshed; 0.1 is a good start";
            fields.report().note(fields.path_of("cache_refresh_percentage_per_iteration"), text);
        }
        if fields.flag("fp8_quant") == Some(true) {
            fields.report().note(fields.path_of("fp8_quant"), "has no effect, rows stay f32");
        }
        is_enabled.then_some(config)
    }

    fn read_kind(fields: &mut Fields<'_>) -> GpuCacheKind {
        let name = "embedding_cache_type";
        if fields.peek(name).and_then(Value::as_str) == Some("stochastic") {
            fields.accept(&[name]);
            let allowed = "dynamic, which is closest to it, static, uvm";
            fields.wrong(&fields.path_of(name), "\"stochastic\"", allowed);
            return GpuCacheKind::Dynamic;
        }
        fields.choice(name, &KINDS).unwrap_or(GpuCacheKind::Dynamic)
    }
}
