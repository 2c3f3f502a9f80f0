//! An HSTU model as a folder of files: `config.json` and `model.safetensors` (or shards).
//!
//! | tensor | shape |
//! |---|---|
//! | `embeddings.NAME.weight` | `[rows, hidden]`, or as wide as the configuration says |
//! | `embeddings.NAME.keys` | i64 `[rows]`: the ids of the rows; absent where an id is its row |
//! | `item_mlp.N.weight`, `.bias` | with `item_embedding_dim`; the bias may be absent |
//! | `contextual_mlp.N.weight`, `.bias` | the same with `contextual_embedding_dim` |
//! | `positions.weight` | `[rows, hidden]`; may be absent |
//! | `layers.N.input_norm.weight`, `.bias` | `[hidden]` |
//! | `layers.N.uvqk.weight`, `.bias` | `[uvqk, hidden]`; the bias may be absent |
//! | `layers.N.output_norm.weight`, `.bias` | `[heads * value_dim]`; with `group_norm` `[heads]` |
//! | `layers.N.output.weight`, `.bias` | `[hidden, gated]`; the bias may be absent |
//! | `layers.N.position_bias`, `.time_bias` | `[2 n - 1]` and `[buckets]` |
//! | `head.N.weight`, `.bias` | the prediction head of ranking models |
//!
//! uvqk is `2 heads (value_dim + head_dim)`; gated is `heads value_dim`, three times that for the
//! STU variant. The sequential variant has the biases by position and time, and no norms.

use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use terrace_device::HostMap;
use terrace_kernels::{BiasedWeight, Matrix, Ops, Pointwise};

use super::hstu_config::{HstuConfig, HstuTask, HstuVariant};
use super::hstu_model::{HstuModel, StreamMlps};
use super::layer_tensors::{BiasTensors, HstuLayerTensors, NormTensors, reordered, widened};
use super::mlp::Mlp;
use super::stack::HstuStack;
use crate::error::Error;
use crate::files::read_text;
use crate::fingerprint::{HashStore, ModelFingerprint, WeightsHashing};
use crate::weights::Weights;

pub struct HstuFiles {
    /// The folder's name.
    pub name: String,
    pub config: HstuConfig,
    config_text: String,
    weights: Weights,
    files: Vec<Arc<HostMap>>,
    /// Where hashes of weights are kept, if anywhere.
    pub hash_store: Option<HashStore>,
}

/// The rows of a feature.
pub struct TableTensors {
    pub name: String,
    pub rows: Matrix,
    pub keys: Option<Vec<i64>>,
}

impl HstuFiles {
    /// Whether a folder's configuration says that its model is one of these.
    pub fn is_in(folder: &Path) -> bool {
        #[derive(serde::Deserialize)]
        struct Kind {
            model_type: String,
        }
        let text = std::fs::read_to_string(folder.join("config.json")).unwrap_or_default();
        serde_json::from_str::<Kind>(&text).is_ok_and(|kind| kind.model_type == "hstu")
    }

    pub fn open(folder: &Path) -> Result<Self, Error> {
        let config_text = read_text(&folder.join("config.json"))?;
        let config = HstuConfig::from_json(&config_text)?;
        let weights = Weights::open_safetensors(folder)?;
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_else(|| folder.display().to_string());
        Ok(Self::of_weights(name, config, config_text, weights))
    }

    /// Of tensors that have the names above.
    pub(super) fn of_weights(
        name: String,
        config: HstuConfig,
        config_text: String,
        weights: Weights,
    ) -> Self {
        let files = weights.files();
        HstuFiles { name, config, config_text, weights, files, hash_store: None }
    }

    pub(super) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Starts hashing the weights, unless the store knows their hash.
    pub fn hash_weights(&self) -> WeightsHashing {
        WeightsHashing::start(self.files.clone(), self.hash_store.clone())
    }

    /// What pages of this model are known by: all that the configuration says, and all weights but
    /// the embedding tables, which have versions of their own.
    pub fn fingerprint(&self) -> Result<ModelFingerprint, Error> {
        let mut hash = Sha256::new_with_prefix(b"terrace hstu fingerprint 2");
        hash.update(self.config_text.as_bytes());
        let mut names: Vec<&str> = self.weights.names().collect();
        names.retain(|name| !name.starts_with("embeddings."));
        names.sort_unstable();
        for name in names {
            let info = self.weights.info(name).expect("it was listed");
            hash.update(format!("\0{name}\0{:?}\0", info.shape).as_bytes());
            match info.shape.len() {
                2 => {
                    let matrix = self.weights.matrix(name)?;
                    hash.update(matrix.format().name().as_bytes());
                    (0..matrix.rows()).for_each(|row| hash.update(matrix.row(row)));
                }
                _ => {
                    let numbers = self.weights.vector(name)?;
                    numbers.iter().for_each(|number| hash.update(number.to_le_bytes()));
                }
            }
        }
        Ok(ModelFingerprint::of_bytes(hash.finalize().into()))
    }

    pub fn tables(&self) -> Result<Vec<TableTensors>, Error> {
        let table = |(name, dim): (&str, usize)| -> Result<TableTensors, Error> {
            let tensor = format!("embeddings.{name}.weight");
            let rows = self.weights.matrix(&tensor)?;
            self.check(&tensor, &[rows.rows(), dim])?;
            let keys = self.weights.integers(&format!("embeddings.{name}.keys"));
            Ok(TableTensors { name: name.to_owned(), rows, keys })
        };
        self.config.tables().map(table).collect()
    }

    /// Brings the model to the device.
    pub fn place(&self, ops: &Ops) -> Result<HstuModel, Error> {
        let head = match self.config.task {
            HstuTask::Ranking => Some(self.place_head(ops)?),
            HstuTask::Retrieval => None,
        };
        let positions = self.positions()?;
        HstuModel::place(
            ops,
            self.config.token_layout(),
            self.config.embedding_scale(),
            positions.as_deref(),
            self.place_streams(ops)?,
            self.place_stack(ops)?,
            head,
        )
    }

    fn place_stack(&self, ops: &Ops) -> Result<HstuStack, Error> {
        let spec = self.config.layer_spec();
        let layers = (0..self.config.num_layers).map(|layer| self.layer(layer));
        HstuStack::place(ops, spec, layers.collect::<Result<_, _>>()?)
    }

    /// What rows of items and of the context go through.
    fn place_streams(&self, ops: &Ops) -> Result<StreamMlps, Error> {
        let place = |prefix: &str, dim: Option<usize>| -> Result<Option<Mlp>, Error> {
            let Some(dim) = dim else { return Ok(None) };
            let mlp = self.place_mlp(ops, prefix, Pointwise::Relu)?;
            let (found, wanted) = ([mlp.inputs(), mlp.outputs()], [dim, self.config.hidden_size]);
            match found == wanted {
                true => Ok(Some(mlp)),
                false => Err(Error::Config(format!(
                    "{prefix} takes {} numbers and gives {}; it must take {} and give {}",
                    found[0], found[1], wanted[0], wanted[1]
                ))),
            }
        };
        Ok(StreamMlps {
            items: place("item_mlp", self.config.item_embedding_dim)?,
            context: place("contextual_mlp", self.config.contextual_embedding_dim)?,
        })
    }

    fn place_mlp(&self, ops: &Ops, prefix: &str, activation: Pointwise) -> Result<Mlp, Error> {
        let name = |layer: usize| format!("{prefix}.{layer}.weight");
        let layers = (0..).take_while(|layer| self.weights.info(&name(*layer)).is_some());
        let layers: Vec<BiasedWeight> = layers
            .map(|layer| {
                let weight = self.weights.matrix(&name(layer))?;
                let bias = self.vector(&format!("{prefix}.{layer}.bias"), weight.rows())?;
                Ok(BiasedWeight { weight, bias })
            })
            .collect::<Result<_, Error>>()?;
        if layers.is_empty() {
            return Err(Error::TensorMissing { name: name(0) });
        }
        Mlp::place(ops, layers, activation)
    }

    fn place_head(&self, ops: &Ops) -> Result<Mlp, Error> {
        let head = self.place_mlp(ops, "head", self.config.head_activation())?;
        let (outputs, tasks) = (head.outputs(), self.config.num_tasks);
        if tasks != 1 && outputs != tasks {
            let problem = format!("the head has {outputs} outputs and num_tasks is {tasks}");
            return Err(Error::Config(problem));
        }
        Ok(head)
    }

    fn positions(&self) -> Result<Option<Vec<f32>>, Error> {
        let name = "positions.weight";
        let Some(info) = self.weights.info(name) else { return Ok(None) };
        let rows = info.shape.first().copied().unwrap_or(0);
        self.check(name, &[rows, self.config.hidden_size])?;
        self.weights.matrix(name).map(|matrix| Some(widened(&matrix)))
    }

    fn layer(&self, layer: usize) -> Result<HstuLayerTensors, Error> {
        let (spec, name) =
            (self.config.layer_spec(), |part: &str| format!("layers.{layer}.{part}"));
        let has_norms = self.config.variant != HstuVariant::Sequential;
        let norm = |part: &str, width: usize| -> Result<Option<NormTensors>, Error> {
            let tensor = |end: &str| {
                let name = name(&format!("{part}.{end}"));
                self.vector(&name, width)?.ok_or(Error::TensorMissing { name })
            };
            match has_norms {
                true => Ok(Some(NormTensors { weight: tensor("weight")?, bias: tensor("bias")? })),
                false => Ok(None),
            }
        };
        let order = self.config.uvqk_layout().order(&spec);
        self.check(&name("uvqk.weight"), &[spec.uvqk_width(), spec.hidden])?;
        self.check(&name("output.weight"), &[spec.hidden, spec.gated_width()])?;
        let uvqk_bias = self.vector(&name("uvqk.bias"), spec.uvqk_width())?;
        Ok(HstuLayerTensors {
            input_norm: norm("input_norm", spec.hidden)?,
            uvqk: BiasedWeight {
                weight: reordered(&self.weights.matrix(&name("uvqk.weight"))?, &order)?,
                bias: uvqk_bias.map(|bias| order.iter().map(|output| bias[*output]).collect()),
            },
            output_norm: norm("output_norm", spec.output_norm_width())?,
            output: BiasedWeight {
                weight: self.weights.matrix(&name("output.weight"))?,
                bias: self.vector(&name("output.bias"), spec.hidden)?,
            },
            bias: match has_norms {
                true => None,
                false => Some(self.bias(layer)?),
            },
        })
    }

    fn bias(&self, layer: usize) -> Result<BiasTensors, Error> {
        let name = format!("layers.{layer}.position_bias");
        let by_position = self.weights.vector(&name)?;
        let wanted = 2 * self.config.max_history_tokens - 1;
        if by_position.len() < wanted || by_position.len().is_multiple_of(2) {
            let (found, most) = (by_position.len(), self.config.max_history_tokens);
            return Err(Error::Config(format!(
                "{name} has {found} numbers; an odd count of at least {wanted} is needed for \
                 histories of {most} tokens"
            )));
        }
        let name = format!("layers.{layer}.time_bias");
        let by_time = self.weights.vector(&name)?;
        if by_time.is_empty() {
            return Err(Error::Config(format!("{name} has no numbers")));
        }
        Ok(BiasTensors { by_position, by_time })
    }

    /// A vector of a given length, if the file has it.
    fn vector(&self, name: &str, length: usize) -> Result<Option<Vec<f32>>, Error> {
        if self.weights.info(name).is_none() {
            return Ok(None);
        }
        self.check(name, &[length])?;
        self.weights.vector(name).map(Some)
    }

    fn check(&self, name: &str, wanted: &[usize]) -> Result<(), Error> {
        match self.weights.info(name) {
            None => Err(Error::TensorMissing { name: name.to_owned() }),
            Some(info) if info.shape == wanted => Ok(()),
            Some(info) => Err(Error::TensorShape {
                name: name.to_owned(),
                found: info.shape.clone(),
                wanted: wanted.to_vec(),
            }),
        }
    }
}
