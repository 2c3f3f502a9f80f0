//! Slots that are written round and round, except a range that stays in each row.
//!
//! For `lastrec` the range is the same first slots everywhere. For `smart-lastrec` it is found in
//! each row's text, whose rows begin with padding; it may go round the end of the slots.

use std::sync::Arc;

use super::batch_shape::BatchShape;
use super::batch_step::BatchCall;
use crate::TokenId;
use crate::policy::{PolicyError, RecentRule, TextSegment, TokenText};

#[derive(Debug)]
pub(super) struct Ranges {
    shape: BatchShape,
    text_segment: Option<Arc<TextSegment>>,
    /// Most slots of a range.
    most: usize,
    rows: Vec<RowRange>,
}

#[derive(Clone, Copy, Debug, Default)]
struct RowRange {
    /// First slot that stays, and the one after the last; smaller where it goes round.
    kept: Option<(usize, usize)>,
    next: usize,
}

impl Ranges {
    pub(super) fn new(rule: RecentRule, shape: BatchShape) -> Self {
        let most = rule.protected_tokens;
        let kept = (rule.text_segment.is_none() && most > 0).then_some((0, most));
        let rows = vec![RowRange { kept, next: 0 }; shape.rows];
        Ranges { shape, text_segment: rule.text_segment, most, rows }
    }

    pub(super) fn tokens_max(&self) -> usize {
        let kept = if self.text_segment.is_some() { 0 } else { self.most };
        self.shape.slots - kept
    }

    pub(super) fn of_rows(&self) -> Vec<(Option<(usize, usize)>, usize)> {
        self.rows.iter().map(|row| (row.kept, row.next)).collect()
    }

    /// `[rows][kv_heads][tokens]`. A range that this call finds is not yet kept in its slots.
    pub(super) fn choose(
        &mut self,
        seen: usize,
        call: &BatchCall<'_>,
    ) -> Result<Vec<u32>, PolicyError> {
        let slots = self.shape.slots;
        let mut chosen = Vec::new();
        for (row, range) in self.rows.iter_mut().enumerate() {
            let ids = &call.ids[row * call.tokens..(row + 1) * call.tokens];
            let positions = seen..seen + call.tokens;
            let taken: Vec<u32> = positions.map(|position| range.take(position, slots)).collect();
            if let Some(text_segment) = &self.text_segment {
                range.find(text_segment, seen, ids, call.text, slots, self.most)?;
            }
            if slots <= seen + call.tokens {
                range.skip_kept(slots);
            }
            chosen.extend(taken.repeat(self.shape.kv_heads));
        }
        Ok(chosen)
    }
}

impl RowRange {
    /// The slot of the next token: in order while the cache fills, then past what stays.
    fn take(&mut self, position: usize, slots: usize) -> u32 {
        if slots <= position {
            self.skip_kept(slots);
        }
        let slot = self.next;
        self.next = (self.next + 1) % slots;
        slot as u32
    }

    fn skip_kept(&mut self, slots: usize) {
        let Some((start, end)) = self.kept else { return };
        let inside = if start <= end {
            (start..end).contains(&self.next)
        } else {
            start <= self.next || self.next < end
        };
        if inside {
            self.next = end % slots;
        }
    }

    /// Looks for the range in the first call, and later in rows that have been padding so far if
    /// it need not begin at the first slot.
    fn find(
        &mut self,
        text_segment: &TextSegment,
        seen: usize,
        ids: &[TokenId],
        text: Option<&dyn TokenText>,
        slots: usize,
        most: usize,
    ) -> Result<(), PolicyError> {
        if self.kept.is_some() || (text_segment.is_prefix && seen > 0) {
            return Ok(());
        }
        let padding = ids.iter().take_while(|id| **id == text_segment.pad_token).count();
        let most = most.min(ids.len()).max(1);
        let words = &ids[padding..];
        if words.is_empty() {
            // The original counts one token less than the row has.
            self.kept = text_segment.is_prefix.then(|| (0, most.min(ids.len() - 1)));
            return Ok(());
        }
        let text =
            text.ok_or_else(|| PolicyError::TextSegment { why: "there is no text".into() })?;
        let tokens = counted_tokens(text_segment, words, text)?;
        if text_segment.is_prefix {
            self.kept = Some((0, (padding + tokens).min(most)));
        } else {
            let start = (seen + padding) % slots;
            let end = start + tokens.min(most);
            self.kept = Some((start, if end > slots { end - slots } else { end }));
        }
        Ok(())
    }
}

/// Tokens of the segment, by encoding its text again: what differs at its end counts to where it
/// begins to differ.
fn counted_tokens(
    text_segment: &TextSegment,
    ids: &[TokenId],
    text: &dyn TokenText,
) -> Result<usize, PolicyError> {
    let decoded = text.decode(ids);
    let Some(end) = text_segment.end(&decoded) else { return Ok(ids.len()) };
    let again = text.encode(&decoded[..end]);
    let same = again.iter().zip(ids).take_while(|(a, b)| a == b).count();
    if same == again.len() {
        return Ok(same);
    }
    if again.len() - same <= 2 {
        return Ok(same.max(1));
    }
    let why = format!("its {} tokens differ from those of the row after {same}", again.len());
    Err(PolicyError::TextSegment { why })
}
