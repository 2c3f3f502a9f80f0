//! A network as tensors and the layers between them, in the order in which they are computed.

use terrace_kernels::CtrActivation;

use super::ctr_layer::{CtrForm, CtrLayer};
use super::ctr_param::CtrParam;
use super::ctr_shape::CtrShape;

/// Every tensor is made once, before it is read; no layer is made of others.
#[derive(Default)]
pub(super) struct CtrGraph {
    pub tensors: Vec<CtrTensor>,
    pub nodes: Vec<CtrNode>,
    /// The tensor of dense features, if there are any.
    pub dense: Option<usize>,
    /// The tensor of each table's pooled vectors.
    pub pooled: Vec<usize>,
    pub ends: Vec<CtrEnd>,
    /// Of all parameters.
    pub numbers: usize,
}

pub(super) struct CtrTensor {
    pub name: String,
    pub shape: CtrShape,
}

pub(super) struct CtrNode {
    /// Of the layer in the file that it is, or is part of.
    pub layer_name: String,
    pub layer: Box<dyn CtrLayer>,
    pub bottoms: Vec<usize>,
    pub tops: Vec<usize>,
    pub params: Vec<CtrParam>,
    /// Where its parameters begin among the numbers of all.
    pub first_number: usize,
}

/// A tensor that is a result, and what is still to be done with it.
pub(super) struct CtrEnd {
    pub tensor: usize,
    pub activation: Option<CtrActivation>,
}

impl CtrGraph {
    pub fn shapes(&self, tensors: &[usize]) -> Vec<CtrShape> {
        tensors.iter().map(|tensor| self.tensors[*tensor].shape.clone()).collect()
    }

    pub fn form<'a>(&'a self, node: &'a CtrNode) -> CtrForm<'a> {
        node.layer.form(&self.shapes(&node.bottoms))
    }
}
