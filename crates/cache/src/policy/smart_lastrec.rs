//! `smart-lastrec`: the newest tokens stay, and the opening of the text up to where a pattern
//! matches: a system prompt, or the question before a long document.

use std::sync::Arc;

use super::error::PolicyError;
use super::policy_entry::PolicyEntry;
use super::rule_policy::by_rule;
use super::text_segment::TextSegment;
use super::{PolicyArgs, RecentRule, Rule};

pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    name: "smart-lastrec",
    build: |args| {
        let segment = Arc::new(text_segment(args)?);
        let most = args.fraction("max_initial_fraction")?.unwrap_or(INITIAL_FRACTION_MOST);
        by_rule((segment, most), |(segment, most), slots| {
            let most = (most * slots as f64) as usize;
            let text_segment = Some(Arc::clone(segment));
            Rule::Recent(RecentRule { text_segment, ..RecentRule::new(most.max(1)) })
        })
    },
};

/// Most of the slots that the opening takes, unless it is given.
const INITIAL_FRACTION_MOST: f64 = 0.5;

fn text_segment(args: &mut PolicyArgs) -> Result<TextSegment, PolicyError> {
    let pattern = args.text("end_initial_regex")?;
    let pattern = pattern.ok_or_else(|| PolicyError::MissingArgument {
        policy: ENTRY.name.into(),
        argument: "end_initial_regex".into(),
        what: "where the opening ends that is to stay".into(),
    })?;
    Ok(TextSegment {
        pattern: TextSegment::pattern(&pattern)?,
        include_end: args.flag("include_end_string")?.unwrap_or(true),
        is_prefix: args.flag("range_is_prefix")?.unwrap_or(true),
        pad_token: args.count("pad_id")?.unwrap_or(0) as u32,
    })
}
