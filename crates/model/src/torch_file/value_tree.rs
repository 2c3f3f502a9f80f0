//! The tree of a pickle's values.
//!
//! Values refer to each other by number, and a few bytes can so stand for a tree of any size or
//! depth, even for one without an end: the tree has limits of its own.

use std::ops::Range;
use std::sync::Arc;

use super::global::Global;
use super::pickle_error::PickleError;
use super::torch_dtype::TorchDtype;
use super::torch_tensor::TorchTensor;
use super::torch_value::TorchValue;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeId(pub u32);

/// A value as the stack machine has it.
#[derive(Clone)]
pub enum Node {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    List(Vec<NodeId>),
    Tuple(Vec<NodeId>),
    Dict(Vec<(NodeId, NodeId)>),
    Tensor(Arc<TorchTensor>),
    Storage { dtype: Option<TorchDtype>, range: Range<usize> },
    Global(Global),
    Opaque(&'static str),
}

pub struct ValueTree<'a> {
    nodes: &'a [Node],
    values_left: usize,
}

const VALUES_MOST: usize = 1 << 20;
/// Containers in containers.
const DEPTH_MOST: usize = 64;

impl<'a> ValueTree<'a> {
    pub fn new(nodes: &'a [Node]) -> Self {
        ValueTree { nodes, values_left: VALUES_MOST }
    }

    pub fn value(&mut self, root: NodeId) -> Result<TorchValue, PickleError> {
        self.below(root, DEPTH_MOST)
    }

    fn below(
        &mut self,
        NodeId(number): NodeId,
        depth_left: usize,
    ) -> Result<TorchValue, PickleError> {
        let too_many = |what, limit| PickleError::TooMany { what, limit };
        let left = self.values_left.checked_sub(1);
        self.values_left = left.ok_or(too_many("values in its tree", VALUES_MOST))?;
        let depth = depth_left.checked_sub(1);
        let depth = depth.ok_or(too_many("containers in each other", DEPTH_MOST))?;
        Ok(match &self.nodes[number as usize] {
            Node::None => TorchValue::None,
            Node::Bool(value) => TorchValue::Bool(*value),
            Node::Int(value) => TorchValue::Int(*value),
            Node::Float(value) => TorchValue::Float(*value),
            Node::Text(text) => TorchValue::Text(Arc::clone(text)),
            Node::Bytes(bytes) => TorchValue::Bytes(Arc::clone(bytes)),
            Node::List(items) => TorchValue::List(self.all(items, depth)?),
            Node::Tuple(items) => TorchValue::Tuple(self.all(items, depth)?),
            Node::Dict(entries) => {
                let mut pairs = Vec::new();
                for (key, value) in entries {
                    pairs.push((self.below(*key, depth)?, self.below(*value, depth)?));
                }
                TorchValue::Dict(pairs)
            }
            Node::Tensor(tensor) => TorchValue::Tensor(TorchTensor::clone(tensor)),
            Node::Global(Global::Dtype(dtype)) => {
                TorchValue::Text(format!("torch.{}", dtype.name()).into())
            }
            Node::Opaque(class) => TorchValue::Opaque(class),
            Node::Storage { .. } => return Err(not_a_value("a storage without a tensor")),
            Node::Global(global) => return Err(not_a_value(&format!("the name {global:?}"))),
        })
    }

    fn all(&mut self, items: &[NodeId], depth: usize) -> Result<Vec<TorchValue>, PickleError> {
        items.iter().map(|item| self.below(*item, depth)).collect()
    }
}

fn not_a_value(what: &str) -> PickleError {
    PickleError::NotAValue { what: what.to_owned() }
}
