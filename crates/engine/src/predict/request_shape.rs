//! What the requests of a model look like, and the check that one does.

use terrace_embedding::KeyKind;
use terrace_model::ctr::{CtrInputs, CtrTable};

use super::predict_error::PredictError;
use super::samples::{Samples, TableKeys};
use super::vcsr_request::VcsrRequest;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestShape {
    /// Dense features of a sample.
    pub dense: usize,
    pub tables: Vec<SlotsOfTable>,
    pub key_kind: KeyKind,
    /// Numbers that come back for a sample.
    pub outputs: usize,
    /// Samples of one request.
    pub max_samples: usize,
}

/// What samples have in one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotsOfTable {
    pub slots: usize,
    /// Keys of a sample, on average over a full request: memory is taken for so many.
    pub keys_most: usize,
}

impl SlotsOfTable {
    /// Of all tables of a network. `keys_most` has what a configuration says of each, if it says
    /// something.
    pub fn all(inputs: &CtrInputs, keys_most: &[Option<usize>]) -> Vec<Self> {
        let slots_of = |(at, table): (usize, &CtrTable)| SlotsOfTable {
            slots: table.slots,
            keys_most: keys_most
                .get(at)
                .copied()
                .flatten()
                .unwrap_or(0)
                .max(table.keys_per_sample_most)
                .max(table.slots),
        };
        inputs.tables.iter().enumerate().map(slots_of).collect()
    }
}

impl RequestShape {
    /// A request's samples, if everything in it adds up.
    pub fn check(&self, request: VcsrRequest) -> Result<Samples, PredictError> {
        let VcsrRequest { dense, keys, row_offsets } = request;
        let count = self.sample_count(&dense, &row_offsets)?;
        let offsets = self.check_offsets(count, &row_offsets)?;
        let wanted = offsets.iter().map(|offsets| offsets[offsets.len() - 1] as u64).sum();
        if keys.len() as u64 != wanted {
            return Err(PredictError::KeyCount { found: keys.len(), wanted });
        }
        self.key_kind.check(&keys).map_err(PredictError::Key)?;
        for (table, (slots, offsets)) in self.tables.iter().zip(&offsets).enumerate() {
            let found = offsets[offsets.len() - 1] as usize;
            let most = slots.keys_most.saturating_mul(self.max_samples);
            if found > most {
                let samples = self.max_samples;
                return Err(PredictError::TooManyKeys { table, found, samples, most });
            }
        }
        Ok(Samples { count, dense, tables: self.by_table(count, keys, &offsets) })
    }

    fn sample_count(&self, dense: &[f32], offsets: &[i32]) -> Result<usize, PredictError> {
        let (tables, slots) = (self.tables.len(), self.slots());
        let wrong = PredictError::OffsetCount { found: offsets.len(), slots, tables };
        let count = match offsets.len().checked_sub(tables) {
            Some(rest) if slots > 0 && rest.is_multiple_of(slots) => rest / slots,
            Some(0) if slots == 0 => dense.len().checked_div(self.dense).unwrap_or(0),
            _ => return Err(wrong),
        };
        if count > self.max_samples {
            return Err(PredictError::TooManySamples { found: count, most: self.max_samples });
        }
        if count == 0 {
            return Err(PredictError::NoSamples);
        }
        let wanted = count * self.dense;
        if dense.len() != wanted {
            let (found, samples) = (dense.len(), count);
            return Err(PredictError::DenseCount { found, wanted, samples, dense: self.dense });
        }
        Ok(count)
    }

    fn check_offsets<'a>(
        &self,
        count: usize,
        offsets: &'a [i32],
    ) -> Result<Vec<&'a [i32]>, PredictError> {
        let mut rest = offsets;
        let mut all = Vec::with_capacity(self.tables.len());
        for (table, slots) in self.tables.iter().enumerate() {
            let (own, others) = rest.split_at(count * slots.slots + 1);
            if own[0] != 0 {
                return Err(PredictError::FirstOffset { table, found: own[0] });
            }
            if let Some(at) = own.windows(2).position(|pair| pair[1] < pair[0]) {
                let (before, after) = (own[at], own[at + 1]);
                return Err(PredictError::FallingOffset { table, at: at + 1, before, after });
            }
            all.push(own);
            rest = others;
        }
        Ok(all)
    }

    /// From sample by sample to table by table.
    fn by_table(&self, count: usize, keys: Vec<i64>, offsets: &[&[i32]]) -> Vec<TableKeys> {
        if let [offsets] = offsets {
            return vec![TableKeys::new(keys, offsets.to_vec())];
        }
        let with_room = |offsets: &&[i32]| Vec::with_capacity(offsets[offsets.len() - 1] as usize);
        let mut tables: Vec<Vec<i64>> = offsets.iter().map(with_room).collect();
        let mut rest = keys.as_slice();
        for sample in 0..count {
            for ((table, offsets), slots) in tables.iter_mut().zip(offsets).zip(&self.tables) {
                let [begin, end] = [sample, sample + 1].map(|at| offsets[at * slots.slots]);
                let (own, others) = rest.split_at((end - begin) as usize);
                table.extend_from_slice(own);
                rest = others;
            }
        }
        let tables = tables.into_iter().zip(offsets);
        tables.map(|(keys, offsets)| TableKeys::new(keys, offsets.to_vec())).collect()
    }

    fn slots(&self) -> usize {
        self.tables.iter().map(|table| table.slots).sum()
    }
}

#[cfg(test)]
mod tests;
