//! What layers with ops of their own have: parameters, and a version on a device.

use terrace_device::{View, ViewMut};
use terrace_kernels::{CtrActivation, Ops};

use super::ctr_param::CtrParam;
use super::ctr_shape::CtrShape;
use super::layer_params::LayerParams;
use crate::error::Error;

pub trait CtrCompute: Send + Sync {
    /// Its parameters, in the order of HugeCTR's file.
    fn params(&self, _bottoms: &[CtrShape]) -> Vec<CtrParam> {
        Vec::new()
    }

    /// As how many rows of each sample it reads a bottom.
    fn bottom_rows(&self, bottom: &CtrShape) -> usize {
        bottom.rows()
    }

    /// As how many rows of each sample it writes a top.
    fn top_rows(&self, top: &CtrShape) -> usize {
        top.rows()
    }

    /// Whether its bottoms are inputs of products, whose columns a device may want padded: views
    /// of them have [`CtrPlacing::product_columns`], with zeros or other numbers behind the
    /// bottom's own.
    fn multiplies(&self) -> bool {
        false
    }

    /// Whether a function of each number of its top can be left to it, and its top can be f32.
    fn activates(&self) -> bool {
        false
    }

    /// Whether a sample's result depends on the others.
    fn mixes_samples(&self) -> bool {
        false
    }

    /// Brings it to a device.
    fn place(&self, placing: &CtrPlacing<'_>) -> Result<Box<dyn PlacedCtrLayer>, Error>;
}

/// A layer on its device.
pub trait PlacedCtrLayer: Send + Sync {
    /// Bottoms and tops are `[samples * rows, _]`, with the rows that [`CtrCompute`] named; act, or
    /// f32 for a top of a layer that activates.
    fn forward(&self, ops: &Ops, bottoms: &[View<'_>], tops: &mut [ViewMut<'_>]);
}

/// What a layer is placed with.
#[derive(Clone, Copy)]
pub struct CtrPlacing<'a> {
    pub ops: &'a Ops,
    pub bottoms: &'a [CtrShape],
    pub params: LayerParams<'a>,
    /// What is left to it, if it activates.
    pub activation: Option<CtrActivation>,
    /// What the columns of inputs of products are a multiple of.
    pub product_multiple: usize,
}

impl CtrPlacing<'_> {
    /// The columns of a product's input that has so many of its own.
    pub fn product_columns(&self, columns: usize) -> usize {
        columns.next_multiple_of(self.product_multiple)
    }
}
