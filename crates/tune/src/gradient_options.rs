//! How gradients are computed; all but the first three only trade memory for time.

use terrace_cache::policy::SlotFormat;

use crate::loss_factors::LossMean;
use crate::plan::{CellLength, LatticeOptions};
use crate::slots::Rounding;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradientOptions {
    pub loss_mean: LossMean,
    /// When a quantised cache rounds rows in the pass that makes decisions.
    pub rounding: Rounding,
    /// Of what branches leave out of their inputs, where they do; a loss alone leaves out nothing.
    pub dropout_seed: u64,
    pub lattice: LatticeOptions,
    /// How layers' inputs are kept between cells (`grad.layercp_qname`).
    pub layer_checkpoints: SlotFormat,
    /// How keys and values are kept between cells (`grad.cachecp_qname`).
    pub kv_checkpoints: SlotFormat,
    /// Whether keys and values are kept on the host, where a device has memory of its own: then
    /// that does not grow with the text (`grad.cachecp_pin_memory`).
    pub kv_on_host: bool,
    /// Most logits that are there at a time.
    pub logits_most: usize,
}

/// Fewer logits at a time are not worth their calls.
const LOGITS_LEAST: usize = 1 << 14;

impl GradientOptions {
    /// The same gradients in less memory: cells and blocks of logits half as large; none if they
    /// are as small as they can be.
    pub fn smaller(&self) -> Option<Self> {
        let lattice = &self.lattice;
        let times = (lattice.cell_length.multiplier() / 2.0).max(CellLength::MULTIPLIER_LEAST);
        let smaller = GradientOptions {
            lattice: LatticeOptions {
                layers_per_cell: lattice.layers_per_cell.div_ceil(2),
                cell_length: lattice.cell_length.with_multiplier(times),
                ..*lattice
            },
            logits_most: (self.logits_most / 2).max(LOGITS_LEAST.min(self.logits_most)),
            ..*self
        };
        (smaller != *self).then_some(smaller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_end_at_the_smallest_parts() {
        let mut options = GradientOptions {
            loss_mean: LossMean::Targets,
            rounding: Rounding::EachRow,
            dropout_seed: 3,
            lattice: LatticeOptions {
                layers_per_cell: 5,
                cell_length: CellLength::Slots { multiplier: 1.0 },
                single_tokens_for_targets: true,
                chunk_seed: 7,
            },
            layer_checkpoints: SlotFormat::Plain,
            kv_checkpoints: SlotFormat::Plain,
            kv_on_host: false,
            logits_most: 1 << 16,
        };
        let first = options;
        let mut halvings = 0;
        while let Some(smaller) = options.smaller() {
            options = smaller;
            halvings += 1;
            assert!(halvings < 20, "{options:?}");
        }
        assert_eq!(options.lattice.layers_per_cell, 1);
        assert_eq!(options.lattice.cell_length.multiplier(), CellLength::MULTIPLIER_LEAST);
        assert_eq!(options.logits_most, LOGITS_LEAST);
        let lattice = LatticeOptions {
            layers_per_cell: first.lattice.layers_per_cell,
            cell_length: first.lattice.cell_length,
            ..options.lattice
        };
        let rest = GradientOptions { lattice, logits_most: first.logits_most, ..options };
        assert_eq!(rest, first, "what gradients depend on stays");
        let few = GradientOptions { logits_most: 64, ..options };
        assert_eq!(few.smaller(), None);
    }
}
