//! A layer of a click-through network: what shapes it makes, and how it is computed.
//!
//! The layers that Terrace knows and those of one's own are the same to a network. A layer is read
//! by the function of its type ([`CtrLayerKinds`](super::CtrLayerKinds)), asked for its shapes and
//! parameters when the network is read, and placed with a model's weights.

use std::ops::Range;

use terrace_kernels::CtrActivation;

use super::ctr_compute::CtrCompute;
use super::ctr_shape::CtrShape;

pub trait CtrLayer: Send + Sync {
    /// How many of so many bottoms it reads and of so many tops it makes. The others are there for
    /// training.
    fn wiring(&self, given: CtrWiring) -> CtrWiring {
        given
    }

    /// The shapes of its tops, or what is wrong with the bottoms.
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String>;

    /// How it is computed; `bottoms` are such that it makes shapes of them.
    fn form(&self, bottoms: &[CtrShape]) -> CtrForm<'_>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CtrWiring {
    pub bottoms: usize,
    pub tops: usize,
}

/// How a layer is computed. All forms but the last leave it to the model how much is computed at
/// all: views cost nothing, and functions of numbers are part of what makes these.
pub enum CtrForm<'a> {
    /// The top is the bottom, under a shape of its own.
    Same,
    /// Each top has some columns of the bottom, seen as so many rows of each sample.
    Columns { rows: usize, ranges: Vec<Range<usize>> },
    /// The top has the bottoms side by side, seen as so many rows of each sample.
    SideBySide { rows: usize },
    /// A function of each number.
    Activation(CtrActivation),
    /// Other layers, whose last makes the top.
    Graph(Vec<CtrSubLayer>),
    /// By ops of its own.
    Computes(&'a dyn CtrCompute),
}

/// A layer that another one is made of.
pub struct CtrSubLayer {
    pub layer: Box<dyn CtrLayer>,
    pub bottoms: Vec<CtrSource>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CtrSource {
    /// A bottom of the whole layer.
    Bottom(usize),
    /// The top of an earlier layer of the graph.
    Made(usize),
}
