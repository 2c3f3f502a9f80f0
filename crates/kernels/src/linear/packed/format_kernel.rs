//! Work on panels of quantised weights, compiled for each of their formats.

use super::panel_format::{ForPanelFormat, PanelFormat, for_panel_format};
use crate::cpu::lanes::{PanelKernel, PanelLanes};
use crate::linear::weight_format::WeightFormat;

/// A [`PanelKernel`] whose text is the same for every format.
pub(crate) trait FormatKernel: Sized {
    fn format(&self) -> WeightFormat;
    /// Its specification.
    fn plain<F: PanelFormat>(self);
    /// Must be `#[inline(always)]`, with everything in it that uses `lanes`.
    fn vectors<F: PanelFormat, S: PanelLanes>(self, lanes: S);
}

impl<K: FormatKernel> PanelKernel for K {
    type Output = ();

    fn reference(self) {
        for_panel_format(self.format(), Plain(self)).expect("a quantised format");
    }

    #[inline(always)]
    fn simd<S: PanelLanes>(self, lanes: S) {
        for_panel_format(self.format(), Vectors(self, lanes)).expect("a quantised format");
    }
}

struct Plain<K>(K);

impl<K: FormatKernel> ForPanelFormat for Plain<K> {
    type Output = ();

    fn run<F: PanelFormat>(self) {
        self.0.plain::<F>();
    }
}

struct Vectors<K, S>(K, S);

impl<K: FormatKernel, S: PanelLanes> ForPanelFormat for Vectors<K, S> {
    type Output = ();

    #[inline(always)]
    fn run<F: PanelFormat>(self) {
        self.0.vectors::<F, S>(self.1);
    }
}
