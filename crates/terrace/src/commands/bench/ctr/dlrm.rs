//! A DLRM of given sizes with random weights.

use std::sync::Arc;

use anyhow::Result;
use serde_json::{Value, json};
use terrace_device::cuda::CudaInfo;
use terrace_embedding::KeyKind;
use terrace_engine::predict::{BatchPolicy, InstancePlace, PredictSetup, PredictTables};
use terrace_kernels::interaction_width;
use terrace_kernels::random::SplitMix;
use terrace_model::ctr::{CtrNetwork, CtrWeights};

pub const MODEL: &str = "dlrm";
pub const TABLE: &str = "rows";

pub struct Dlrm {
    /// Keys of a sample.
    pub slots: usize,
    /// Numbers of a row.
    pub dim: usize,
    /// Dense features of a sample.
    pub dense: usize,
    /// Outputs of the layers over the dense features, and over the interaction.
    pub bottom: Vec<usize>,
    pub top: Vec<usize>,
}

/// A layer: `[outputs, inputs]` in the order of HugeCTR's file, which is `[inputs, outputs]`.
pub struct DlrmLayer {
    pub inputs: usize,
    pub outputs: usize,
    /// `[inputs, outputs]`
    pub weight: Vec<f32>,
    pub bias: Vec<f32>,
}

const SEED: u64 = 23;

impl Dlrm {
    /// As HugeCTR describes it.
    pub fn network(&self) -> Result<CtrNetwork> {
        let mut layers = vec![
            json!({
                "name": "data", "type": "Data", "check": "Sum",
                "label": {"top": "label", "label_dim": 1},
                "dense": {"top": "dense", "dense_dim": self.dense},
                "sparse": [{"top": "keys", "slot_num": self.slots, "nnz_per_slot": 1}],
            }),
            json!({
                "name": TABLE, "type": "LocalizedSlotSparseEmbeddingHash",
                "bottom": "keys", "top": TABLE,
                "sparse_embedding_hparam": {"embedding_vec_size": self.dim, "combiner": "sum"},
            }),
        ];
        let below = add_layers(&mut layers, "bottom", "dense", &self.bottom, true);
        layers.push(json!({
            "name": "interaction", "type": "Interaction",
            "bottom": [below, TABLE], "top": "interaction",
        }));
        let last = add_layers(&mut layers, "top", "interaction", &self.top, false);
        layers.push(json!({
            "name": "loss", "type": "BinaryCrossEntropyLoss",
            "bottom": [last, "label"], "top": "loss",
        }));
        Ok(CtrNetwork::parse(&serde_json::to_vec(&json!({ "layers": layers }))?)?)
    }

    /// Of the layers below, then above; the same each time.
    pub fn layers(&self) -> [Vec<DlrmLayer>; 2] {
        let mut random = SplitMix::new(SEED);
        let mut stack = |mut inputs: usize, sizes: &[usize]| -> Vec<DlrmLayer> {
            let layer = |&outputs: &usize| {
                // Such that numbers stay about as large from layer to layer.
                let scale = (6.0 / inputs as f32).sqrt();
                let weight = random.numbers(inputs * outputs).iter().map(|it| it * scale).collect();
                let bias = random.numbers(outputs).iter().map(|it| it * 0.1).collect();
                let layer = DlrmLayer { inputs, outputs, weight, bias };
                inputs = outputs;
                layer
            };
            sizes.iter().map(layer).collect()
        };
        [stack(self.dense, &self.bottom), stack(self.interaction(), &self.top)]
    }

    pub fn weights(&self, network: &CtrNetwork) -> Result<CtrWeights> {
        let layers = self.layers();
        let numbers = layers.iter().flatten().flat_map(|it| it.weight.iter().chain(&it.bias));
        let bytes: Vec<u8> = numbers.flat_map(|number| number.to_le_bytes()).collect();
        Ok(CtrWeights::from_hugectr(network, &bytes)?)
    }

    /// One instance, in f32 on one thread; batches are not joined.
    pub fn setup(
        &self,
        network: Arc<CtrNetwork>,
        tables: PredictTables,
        gpu: Option<CudaInfo>,
        max_samples: usize,
    ) -> Result<PredictSetup> {
        Ok(PredictSetup {
            name: MODEL.to_owned(),
            weights: self.weights(&network)?,
            tables,
            network,
            keys_most: vec![None],
            key_kind: KeyKind::I64,
            batching: BatchPolicy { max_samples, joining: None, max_waiting: 16 },
            places: vec![InstancePlace { gpu, cache: 0 }],
            mixed_precision: false,
            threads: 1,
            cuda_libs: Vec::new(),
        })
    }

    /// Inputs of the layers above.
    pub fn interaction(&self) -> usize {
        interaction_width(self.dim, self.slots)
    }
}

/// Layers one over the other, with ReLU between them and perhaps at the end; the last one's name.
fn add_layers(
    layers: &mut Vec<Value>,
    name: &str,
    bottom: &str,
    sizes: &[usize],
    ends_in_relu: bool,
) -> String {
    let mut below = bottom.to_owned();
    for (at, outputs) in sizes.iter().enumerate() {
        let layer = format!("{name}{at}");
        layers.push(json!({
            "name": layer, "type": "InnerProduct", "bottom": below, "top": layer,
            "fc_param": {"num_output": outputs},
        }));
        below = layer;
        if ends_in_relu || at + 1 < sizes.len() {
            let relu = format!("{name}{at}_relu");
            layers.push(json!({"name": relu, "type": "ReLU", "bottom": below, "top": relu}));
            below = relu;
        }
    }
    below
}
