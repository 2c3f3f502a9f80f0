//! `smart-lastrec`: the newest tokens stay, and the opening of the text up to where a pattern
//! matches: a system prompt, or the question before a long document.

use std::sync::Arc;

use super::error::PolicyError;
use super::policy_entry::PolicyEntry;
use super::text_segment::TextSegment;
use super::{KeyPositions, KvPolicy, PolicyArgs, RecentRule, Rule};

pub(super) const ENTRY: PolicyEntry =
    PolicyEntry { name: "smart-lastrec", build: |args| Ok(Arc::new(SmartLastRec::take(args)?)) };

/// Most of the slots that the opening takes, unless it is told.
const INITIAL_FRACTION_MOST: f64 = 0.5;

#[derive(Debug)]
struct SmartLastRec {
    text_segment: Arc<TextSegment>,
    max_initial_fraction: f64,
}

impl SmartLastRec {
    fn take(args: &mut PolicyArgs) -> Result<Self, PolicyError> {
        let pattern = args.text("end_initial_regex")?;
        let pattern = pattern.ok_or_else(|| PolicyError::MissingArgument {
            policy: ENTRY.name.into(),
            argument: "end_initial_regex".into(),
            what: "where the opening ends that is to stay".into(),
        })?;
        let text_segment = TextSegment {
            pattern: TextSegment::pattern(&pattern)?,
            include_end: args.flag("include_end_string")?.unwrap_or(true),
            is_prefix: args.flag("range_is_prefix")?.unwrap_or(true),
            pad_token: args.count("pad_id")?.unwrap_or(0) as u32,
        };
        let most = args.fraction("max_initial_fraction")?.unwrap_or(INITIAL_FRACTION_MOST);
        Ok(SmartLastRec { text_segment: Arc::new(text_segment), max_initial_fraction: most })
    }
}

impl KvPolicy for SmartLastRec {
    fn name(&self) -> &str {
        ENTRY.name
    }

    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        let most = (self.max_initial_fraction * slots as f64) as usize;
        let rule = RecentRule {
            protected_tokens: most.max(1),
            text_segment: Some(Arc::clone(&self.text_segment)),
            key_positions: KeyPositions::InSequence,
        };
        Ok(Rule::Recent(rule))
    }
}
