//! The weights of a row of layers, where the ops compute.
//!
//! Most lie there anyway. Those that are away are brought when their row's turn comes, into the
//! room of those that were there before.

use std::ops::{Deref, Range};

use terrace_kernels::{Linear, TuneOps};
use terrace_model::LayerProduct;

use super::layer_weights::LayerWeights;
use super::projection::{PlacedProjection, Projection};
use crate::error::Error;

/// Copies of a layer's weights on the device, by product.
type BroughtLayer = Vec<Linear>;

pub(crate) struct RowWeights<'a> {
    layers: &'a [LayerWeights],
    first: usize,
    /// Of each layer of the row; none where they lie on the device anyway.
    brought: Vec<BroughtLayer>,
}

/// What a row leaves on the device for the next one's weights.
#[derive(Default)]
pub(crate) struct RowRoom(Vec<BroughtLayer>);

/// A layer with all its weights where the ops compute.
#[derive(Clone, Copy)]
pub(crate) struct PlacedLayer<'a> {
    weights: &'a LayerWeights,
    brought: Option<&'a BroughtLayer>,
}

impl<'a> RowWeights<'a> {
    pub fn bring(
        ops: &TuneOps<'_>,
        layers: &'a [LayerWeights],
        row: &Range<usize>,
        room: RowRoom,
    ) -> Result<Self, Error> {
        let layers = &layers[row.clone()];
        let mut room = room.0.into_iter();
        let brought = layers.iter().filter(|layer| layer.is_away()).map(|layer| {
            let mut room = room.next().into_iter().flatten();
            let products = LayerProduct::ALL.map(|product| layer.product(product));
            let bring = |product: &Projection| Ok(ops.bring(&product.base.linear, room.next())?);
            products.into_iter().map(bring).collect::<Result<BroughtLayer, Error>>()
        });
        let brought = brought.collect::<Result<_, _>>()?;
        Ok(RowWeights { layers, first: row.start, brought })
    }

    pub fn layer(&self, layer: usize) -> PlacedLayer<'_> {
        let at = layer - self.first;
        PlacedLayer { weights: &self.layers[at], brought: self.brought.get(at) }
    }

    pub fn into_room(self) -> RowRoom {
        RowRoom(self.brought)
    }
}

impl<'a> PlacedLayer<'a> {
    pub fn projection(&self, product: LayerProduct) -> PlacedProjection<'a> {
        let projection = self.weights.product(product);
        match self.brought {
            Some(brought) => PlacedProjection { projection, weight: &brought[product as usize] },
            None => projection.in_place(),
        }
    }
}

impl Deref for PlacedLayer<'_> {
    type Target = LayerWeights;

    fn deref(&self) -> &LayerWeights {
        self.weights
    }
}
