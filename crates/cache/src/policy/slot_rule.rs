//! Rules and formats in the words of the device's ops.
//!
//! [`SlotTable`](super::SlotTable) is what the ops are held to. A score of the policy's own is no
//! word of a rule: it travels beside it, see [`Rule::scorer`]. What reproduces another program
//! stays with [`reference`](crate::reference).

use terrace_kernels::{RowFormat, SlotLayout, SlotNotes, SlotRule, SlotRuleKind};

use super::error::PolicyError;
use super::kv_cache_spec::KvCacheSpec;
use super::rule::{RecentRule, Rule, Weighting};
use super::slot_format::SlotFormat;
use super::slot_shape::SlotShape;

impl Rule {
    /// This rule, which is that of a sequence (see [`Rule::for_sequence`]), at a step of `live`
    /// tokens after `past` others. A first chunk of `first_chunk` tokens may be spread over steps;
    /// a later one is a step.
    pub fn slot_rule(
        &self,
        slots: usize,
        past: usize,
        live: usize,
        first_chunk: usize,
    ) -> Result<SlotRule, PolicyError> {
        let most = match first_chunk.min(slots).checked_sub(past) {
            Some(rest) if rest > 0 => rest,
            _ => self.room(past, slots),
        };
        if live == 0 || most < live {
            return Err(PolicyError::ChunkTokens { tokens: live, most, seen: past, slots });
        }
        let keep = SlotRule {
            first_chunk: first_chunk as i32,
            ..SlotRule::new(SlotRuleKind::Keep, past, slots)
        };
        match self {
            Rule::Keep => Ok(keep),
            Rule::Recent(RecentRule { text_segment: Some(_), .. }) => {
                let why = "it is not known how the sequence opens".into();
                Err(PolicyError::TextSegment { why })
            }
            Rule::Recent(rule) => Ok(SlotRule {
                kind: SlotRuleKind::Recent,
                protected: rule.protected_tokens as i32,
                rerotated: rule.rerotated(past + live, slots) as i32,
                ..keep
            }),
            Rule::Scored(rule) => Ok(SlotRule {
                kind: SlotRuleKind::Scored,
                protected: rule.protected_tokens as i32,
                grace: rule.grace_tokens as i32,
                initial: rule.initial_slots.min(slots) as i32,
                per_age: rule.per_age,
                by_value_norm: rule.weighting == Weighting::ByValueNorm,
                score_fraction: rule.score_share.unwrap_or(1.0),
                ..keep
            }),
        }
    }

    /// How the slots of `layers` layers with this rule lie in a page, one slot in each.
    pub(crate) fn slot_layout(
        &self,
        layers: usize,
        shape: &SlotShape,
        [keys, values]: [SlotFormat; 2],
    ) -> Result<SlotLayout, PolicyError> {
        Ok(SlotLayout {
            layers,
            kv_heads: shape.kv_heads,
            page_slots: 1,
            key_dim: shape.key_dim,
            value_dim: shape.value_dim,
            keys: row_format(keys, shape)?,
            values: row_format(values, shape)?,
            notes: SlotNotes {
                scores: self.wants_weights(),
                value_norms: self.wants_value_norms(),
                errors: self.wants_errors(),
            },
        })
    }
}

impl KvCacheSpec {
    /// How `layers` layers of `slots` slots lie in a page, one slot in each: the caller says how
    /// many a page has.
    pub fn slot_layout(
        &self,
        slots: usize,
        layers: usize,
        shape: &SlotShape,
    ) -> Result<SlotLayout, PolicyError> {
        if self.compat.is_some() {
            return Err(PolicyError::ReferenceOnly { what: "compat = \"keys_values\"".into() });
        }
        self.rule(slots)?.slot_layout(layers, shape, [self.keys, self.values])
    }
}

fn row_format(format: SlotFormat, shape: &SlotShape) -> Result<RowFormat, PolicyError> {
    match format {
        SlotFormat::Quantised(quantiser) => Ok(RowFormat::Quantised(quantiser)),
        SlotFormat::Plain => {
            RowFormat::plain(shape.plain).ok_or_else(|| PolicyError::BadArgument {
                argument: "the type of keys and values".into(),
                value: shape.plain.name().to_owned(),
                wanted: "f32, f16 or bf16".into(),
            })
        }
    }
}
