//! Sequences of equal length, with targets for the last positions.

use crate::error::Error;

/// `tokens` inputs of each sequence; the targets belong to its last positions.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    pub seqs: usize,
    /// `[seqs, tokens]`
    pub ids: &'a [i32],
    /// `[seqs, targets]`, negative for a position without one.
    pub targets: &'a [i32],
}

impl Batch<'_> {
    pub fn tokens(&self) -> usize {
        self.ids.len() / self.seqs.max(1)
    }

    /// Positions of each sequence that have a target, or could have.
    pub fn target_tokens(&self) -> usize {
        self.targets.len() / self.seqs.max(1)
    }

    pub(crate) fn check(&self, vocab: usize) -> Result<(), Error> {
        let wrong = |argument, value: String, wanted: String| {
            Err(Error::BadArgument { argument, value, wanted })
        };
        let whole = |numbers: &[i32]| self.seqs > 0 && numbers.len().is_multiple_of(self.seqs);
        if !whole(self.ids) || self.ids.is_empty() {
            let value = format!("{} ids of {} sequences", self.ids.len(), self.seqs);
            return wrong("the batch", value, "as many ids of each sequence, at least 1".into());
        }
        if !whole(self.targets) || self.targets.is_empty() || self.ids.len() < self.targets.len() {
            let value = format!("{} targets of {} sequences", self.targets.len(), self.seqs);
            let wanted = format!("from 1 to {} of each", self.tokens());
            return wrong("the batch", value, wanted);
        }
        let known = |id: &i32| usize::try_from(*id).is_ok_and(|id| id < vocab);
        if let Some(id) = self.ids.iter().find(|id| !known(id)) {
            return wrong("a token id", id.to_string(), format!("from 0 to {}", vocab - 1));
        }
        if let Some(id) = self.targets.iter().find(|id| **id >= 0 && !known(id)) {
            return wrong("a target", id.to_string(), format!("less than {vocab}"));
        }
        Ok(())
    }

    /// Ids of some positions, `[seqs, tokens]`.
    pub(crate) fn ids_at(&self, tokens: &std::ops::Range<usize>) -> Vec<i32> {
        let rows = self.ids.chunks_exact(self.tokens());
        rows.flat_map(|row| &row[tokens.clone()]).copied().collect()
    }
}
