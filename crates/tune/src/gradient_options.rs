//! How gradients are computed; all but the first two only trade memory for time.

use terrace_cache::policy::SlotFormat;

use crate::loss_factors::LossMean;
use crate::plan::LatticeOptions;
use crate::slots::Rounding;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradientOptions {
    pub loss_mean: LossMean,
    /// When a quantised cache rounds rows in the pass that makes decisions.
    pub rounding: Rounding,
    pub lattice: LatticeOptions,
    /// How layers' inputs are kept between cells (`grad.layercp_qname`).
    pub layer_checkpoints: SlotFormat,
    /// How keys and values are kept between cells (`grad.cachecp_qname`).
    pub kv_checkpoints: SlotFormat,
    /// Most logits that are there at a time.
    pub logits_most: usize,
}
