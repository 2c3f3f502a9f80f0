//! A layer's slots chosen by tables on the host, one for each sequence: for every rule there is.

use std::sync::Arc;

use terrace_cache::policy::{
    KvCacheSpec, Placement, SlotExtras, SlotFormat, SlotTable, TableShape,
};
use terrace_kernels::TuneOps;

use crate::error::Error;
use crate::model::LayerDims;
use crate::tensor::Tensor;

/// The tables of one layer, with what they have placed since it was taken.
pub(crate) struct TablePolicy {
    tables: Vec<SlotTable>,
    formats: [SlotFormat; 2],
    head_dim: usize,
    /// `[chunks][seqs]`
    placed: Vec<Vec<Placement>>,
}

impl TablePolicy {
    pub fn new(
        spec: &KvCacheSpec,
        layer: usize,
        dims: LayerDims,
        seqs: usize,
    ) -> Result<Self, Error> {
        let slots = spec.slots(layer);
        let shape = TableShape { kv_heads: dims.kv_heads, slots };
        let table = |_| SlotTable::new(spec.policy.clone(), spec.rule(slots)?, shape);
        let tables = (0..seqs).map(table).collect::<Result<_, _>>()?;
        let formats = [spec.keys, spec.values];
        Ok(TablePolicy { tables, formats, head_dim: dims.head_dim, placed: Vec::new() })
    }

    pub fn shape(&self) -> TableShape {
        self.tables[0].shape()
    }

    pub fn wants_weights(&self) -> bool {
        self.tables[0].rule().wants_weights()
    }

    /// What was placed since the last call, `[chunks][seqs]`.
    pub fn take_placed(&mut self) -> Vec<Vec<Placement>> {
        std::mem::take(&mut self.placed)
    }

    /// i32 `[seqs * kv_heads, tokens]`
    pub fn choose(&mut self, ops: &TuneOps<'_>, tokens: usize) -> Result<Arc<Tensor>, Error> {
        let placements: Vec<Placement> =
            self.tables.iter().map(|table| table.choose(tokens)).collect::<Result<_, _>>()?;
        let slots = placements.iter().flat_map(|placement| &placement.slots);
        let slots: Vec<i32> = slots.map(|slot| *slot as i32).collect();
        self.placed.push(placements);
        let heads = slots.len() / tokens;
        Ok(Arc::new(Tensor::of(ops, "slots of a chunk", &slots, [heads, tokens])?))
    }

    /// Whether it asks for the keys and values of a chunk.
    pub fn wants_rows(&self) -> bool {
        let rule = self.tables[0].rule();
        rule.wants_value_norms() || rule.wants_errors()
    }

    /// rows: keys and values of the chunk as they are before they are stored, each
    /// `[seqs][kv_heads][tokens][head_dim]`, where they are wanted
    pub fn commit(&mut self, rows: Option<&[Vec<f32>; 2]>) {
        let placements = self.placed.last().expect("a chunk was placed");
        let rule = self.tables[0].rule();
        let (wants_norms, wants_errors) = (rule.wants_value_norms(), rule.wants_errors());
        let [keys, values] = rows.map_or([&[][..]; 2], |[keys, values]| [keys, values]);
        let each = values.len() / self.tables.len();
        for (seq, (table, placement)) in self.tables.iter_mut().zip(placements).enumerate() {
            let of_seq = |rows: &[f32]| rows[seq * each..(seq + 1) * each].to_vec();
            let rows = of_seq(values);
            let norms: Vec<f32> = match wants_norms {
                true => rows.chunks_exact(self.head_dim).map(norm).collect(),
                false => Vec::new(),
            };
            let errors = match wants_errors {
                true => self
                    .formats
                    .iter()
                    .zip([of_seq(keys), rows])
                    .map(|(format, mut rows)| {
                        let rows = rows.chunks_exact_mut(self.head_dim);
                        rows.map(|row| format.pass(row)).collect::<Vec<f32>>()
                    })
                    .reduce(|a, b| a.iter().zip(&b).map(|(a, b)| a + b).collect()),
                false => None,
            };
            let errors = errors.unwrap_or_default();
            table.commit(placement, SlotExtras { value_norms: &norms, errors: &errors });
        }
    }

    /// weights: `[seqs * kv_heads, filled]`
    pub fn add_weights(&mut self, tokens: usize, weights: &[f32]) {
        let each = weights.len() / self.tables.len();
        for (table, weights) in self.tables.iter_mut().zip(weights.chunks_exact(each)) {
            table.add_weights(tokens, weights);
        }
    }
}

fn norm(row: &[f32]) -> f32 {
    row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt() as f32
}
