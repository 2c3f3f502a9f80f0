//! An embedding layer of a network, which is a table.

use serde_json::{Map, Value};
use terrace_kernels::Combiner;

use super::layer_fields::LayerFields;

/// The types of HugeCTR; they differ in where training keeps the rows.
pub(super) const EMBEDDINGS: [&str; 4] = [
    "DistributedSlotSparseEmbeddingHash",
    "LocalizedSlotSparseEmbeddingHash",
    "LocalizedSlotSparseEmbeddingOneHot",
    "HybridSparseEmbedding",
];

pub(super) struct EmbeddingLayer<'a> {
    /// Its keys.
    pub bottom: &'a str,
    pub top: &'a str,
    pub dim: usize,
    pub combiner: Combiner,
}

impl<'a> EmbeddingLayer<'a> {
    pub fn read(layer: &'a Map<String, Value>) -> Result<Self, String> {
        let fields = LayerFields::new(layer);
        let options = fields.object("sparse_embedding_hparam")?;
        Ok(EmbeddingLayer {
            bottom: fields.text("bottom")?,
            top: fields.text("top")?,
            dim: options.count("embedding_vec_size")?,
            combiner: read_combiner(&options)?,
        })
    }
}

/// Older files have a number.
fn read_combiner(options: &LayerFields<'_>) -> Result<Combiner, String> {
    let (text, number) = (options.text("combiner"), options.count("combiner"));
    match (&text, &number) {
        (Ok("sum"), _) | (_, Ok(0)) => Ok(Combiner::Sum),
        (Ok("mean"), _) | (_, Ok(1)) => Ok(Combiner::Mean),
        (Ok(other), _) => Err(format!("combiner {other:?} is not known; sum and mean are")),
        (_, Ok(other)) => Err(format!("combiner {other} is not known; 0 (sum) and 1 (mean) are")),
        _ => text.map(|_| Combiner::Sum),
    }
}
