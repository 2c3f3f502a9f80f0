//! A weight matrix in fixed point, in panels of sixteen rows.
//!
//! A vector of a panel has two columns of sixteen rows. Rows and columns that a panel has beyond
//! the matrix are 0.

use terrace_device::{Buffer, DType, SharedRows, WorkerPool};

use super::STEP_COLUMNS;
use super::fixed_step::FixedStep;
use crate::error::Error;
use crate::linear::biased_weight::BiasedWeight;
use crate::linear::unpack;
use crate::tiles::PANEL_ROWS;

pub(crate) struct FixedMatrix {
    rows: usize,
    columns: usize,
    /// i16 `[panels, columns / 2, PANEL_ROWS, 2]`
    words: Buffer,
    /// f32 `[panels, blocks, PANEL_ROWS]`
    steps: Buffer,
    /// `[panels * PANEL_ROWS]`
    bias: Vec<f32>,
}

/// Bytes of a vector: two columns of a panel.
pub(super) const PAIR_BYTES: usize = PANEL_ROWS * 2 * size_of::<i16>();

impl FixedMatrix {
    pub(crate) fn pack(biased: &BiasedWeight, pool: &WorkerPool) -> Result<Self, Error> {
        let (rows, columns) = (biased.weight.rows(), biased.weight.columns());
        let panels = rows.div_ceil(PANEL_ROWS);
        let panel_bytes = columns.div_ceil(2) * PAIR_BYTES;
        let panel_steps = columns.div_ceil(STEP_COLUMNS) * PANEL_ROWS;
        let mut words = Buffer::zeroed(panels * panel_bytes, "weights in fixed point")?;
        let mut steps = Buffer::zeroed(panels * panel_steps * size_of::<f32>(), "their steps")?;
        let mut words_view = words.view_mut(DType::U8, [panels, panel_bytes]);
        let mut steps_view = steps.view_mut(DType::F32, [panels, panel_steps]);
        let to_words = SharedRows::<u8>::new(&mut words_view);
        let to_steps = SharedRows::<f32>::new(&mut steps_view);
        pool.run(panels, &|_, panel| {
            // SAFETY: each panel is one task's.
            let (words, steps) = unsafe { (to_words.row_mut(panel), to_steps.row_mut(panel)) };
            let mut weights = vec![0.0; columns];
            for lane in 0..PANEL_ROWS.min(rows - panel * PANEL_ROWS) {
                let bytes = biased.weight.row(panel * PANEL_ROWS + lane);
                unpack::reference::unpack(biased.weight.format(), bytes, &mut weights);
                pack_row(&weights, lane, words, steps);
            }
        });
        let mut bias = biased.bias.clone().unwrap_or_default();
        bias.resize(panels * PANEL_ROWS, 0.0);
        Ok(FixedMatrix { rows, columns, words, steps, bias })
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words.len() + self.steps.len()
    }

    pub(super) fn panels(&self) -> usize {
        self.rows.div_ceil(PANEL_ROWS)
    }

    /// A panel's vectors, [`PAIR_BYTES`] for each two columns.
    pub(super) fn words(&self, panel: usize) -> &[u8] {
        let bytes = self.columns.div_ceil(2) * PAIR_BYTES;
        &self.words.bytes()[panel * bytes..(panel + 1) * bytes]
    }

    /// `[blocks, PANEL_ROWS]`
    pub(super) fn steps(&self, panel: usize) -> &[f32] {
        let count = self.columns.div_ceil(STEP_COLUMNS) * PANEL_ROWS;
        let steps = self.steps.view(DType::F32, [self.steps.len() / size_of::<f32>()]);
        &steps.as_slice::<f32>()[panel * count..(panel + 1) * count]
    }

    /// What is added to the outputs from the first of a panel on.
    pub(super) fn bias(&self, panel: usize) -> &[f32] {
        &self.bias[panel * PANEL_ROWS..]
    }
}

fn pack_row(weights: &[f32], lane: usize, words: &mut [u8], steps: &mut [f32]) {
    for (block, weights) in weights.chunks(STEP_COLUMNS).enumerate() {
        let largest = weights.iter().fold(0.0, |most: f32, weight| match weight.is_nan() {
            true => f32::INFINITY,
            false => most.max(weight.abs()),
        });
        let step = FixedStep::of(largest);
        steps[block * PANEL_ROWS + lane] = step.step;
        for (i, weight) in weights.iter().enumerate() {
            let column = block * STEP_COLUMNS + i;
            let at = column / 2 * PAIR_BYTES + (lane * 2 + column % 2) * size_of::<i16>();
            words[at..at + size_of::<i16>()].copy_from_slice(&step.quantise(*weight).to_le_bytes());
        }
    }
}
