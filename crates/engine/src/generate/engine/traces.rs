//! What the caches of an engine's sequences hold, for people to look at.

use terrace_cache::PageId;

use crate::error::Error;
use crate::generate::cache_trace::{
    CacheTrace, GroupTrace, PageTrace, kept_positions, rule_in_words,
};
use crate::generate::engine::Engine;
use crate::generate::seq_id::SeqId;
use crate::generate::sequence::{SeqState, Sequence};

/// Whether to read which positions are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    No,
    Yes,
}

impl Engine {
    /// What the cache of every sequence holds now, in the order in which they came. Positions are
    /// read out of the pages: ask for them only if somebody will look.
    pub fn cache_traces(&mut self, positions: Positions) -> Result<Vec<CacheTrace>, Error> {
        let ids: Vec<SeqId> = self.seqs.iter().map(Sequence::id).collect();
        ids.into_iter().map(|id| self.cache_trace(id, positions)).collect()
    }

    pub(super) fn cache_trace(
        &mut self,
        id: SeqId,
        positions: Positions,
    ) -> Result<CacheTrace, Error> {
        let seq = &self.seqs[id];
        let space = self.scheduler.space();
        let mut groups = Vec::new();
        let computed = seq.computed();
        for (index, (group, table)) in space.groups(seq.kind()).zip(seq.tables()).enumerate() {
            let page = |page: PageId| PageTrace { page: page.0, holders: space.holders(page) };
            let rule = seq.policy().map(|policy| &policy.rules[index]);
            let filled = rule.map_or(computed, |rule| rule.slots.min(computed));
            let held: Vec<PageId> = table.held().collect();
            let kept = match positions {
                // Of pages that have left, positions are not known here.
                Positions::Yes if held.len() == table.pages().len() => {
                    let pages = self.under_way.read_pages(&held)?;
                    Some(kept_positions(group, &pages, filled))
                }
                _ => None,
            };
            groups.push(GroupTrace {
                layers: group.layers.clone(),
                keeps: rule_in_words(rule.map(|rule| &rule.rule)),
                page_slots: group.page_tokens(),
                pages: held.into_iter().map(page).collect(),
                kept,
            });
        }
        let state = match seq.state {
            SeqState::Waiting => "waiting",
            SeqState::Fetching => "fetching",
            SeqState::Running => "running",
            SeqState::Preempted => "preempted",
        };
        Ok(CacheTrace {
            request: seq.request_id.0,
            choice: seq.choices.start,
            state: state.into(),
            prompt_tokens: seq.prompt_len(),
            computed_tokens: computed,
            groups,
        })
    }
}
