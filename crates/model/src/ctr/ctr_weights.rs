//! The dense parameters of a network: all numbers that its layers are placed with.
//!
//! They come as HugeCTR's file, f32 one after the other in the order of the layers, or as
//! safetensors named `LAYER.PARAM`, which may have `dense.` before. What BatchNorm has seen in
//! training is in another file of HugeCTR's, `{"layers": [{"type": "BatchNorm", "mean": [..],
//! "var": [..]}, ..]}`, or among the safetensors.

use half::{bf16, f16};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde::Deserialize;

use super::ctr_network::CtrNetwork;
use super::ctr_param::{CtrParam, CtrParamKind};
use crate::error::Error;

pub struct CtrWeights {
    /// Of all parameters, in the order of the network.
    pub(super) numbers: Vec<f32>,
    /// The layer that lacks its statistics.
    lacks_statistics: Option<String>,
}

/// A parameter and where it lies among the numbers of all.
struct Located<'a> {
    name: String,
    param: &'a CtrParam,
    start: usize,
}

impl Located<'_> {
    fn count(&self) -> usize {
        self.param.shape[0] * self.param.shape[1]
    }

    fn is_statistic(&self) -> bool {
        self.param.kind == CtrParamKind::Statistic
    }
}

impl CtrNetwork {
    /// All parameters under their whole names, in the order of HugeCTR's file.
    pub fn params(&self) -> impl Iterator<Item = CtrParam> {
        self.located().map(|located| CtrParam { name: located.name, ..*located.param })
    }

    fn located(&self) -> impl Iterator<Item = Located<'_>> {
        self.graph.nodes.iter().flat_map(|node| {
            let mut start = node.first_number;
            node.params.iter().map(move |param| {
                let name = format!("{}.{}", node.layer_name, param.name);
                let located = Located { name, param, start };
                start += located.count();
                located
            })
        })
    }
}

impl CtrWeights {
    /// HugeCTR's file of trained parameters.
    pub fn from_hugectr(network: &CtrNetwork, bytes: &[u8]) -> Result<Self, Error> {
        let in_file = || network.located().filter(|located| !located.is_statistic());
        let wanted: usize = in_file().map(|located| located.count()).sum();
        if wanted.checked_mul(size_of::<f32>()) != Some(bytes.len()) {
            return Err(Error::CtrWeights(format!(
                "the dense file has {} bytes, but the network has {wanted} parameters of 4 bytes; \
                 is it the file of this network?",
                bytes.len()
            )));
        }
        let mut weights = CtrWeights::zeros(network);
        let (mut numbers, _) = bytes.as_chunks();
        for located in in_file() {
            let (mine, rest) = numbers.split_at(located.count());
            weights.fill(&located, mine.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            numbers = rest;
        }
        Ok(weights)
    }

    /// Safetensors in F32, or in F64, F16 or BF16, which become f32. Tensors of other names are
    /// not looked at.
    pub fn from_safetensors(network: &CtrNetwork, bytes: &[u8]) -> Result<Self, Error> {
        let file = SafeTensors::deserialize(bytes)
            .map_err(|error| Error::CtrWeights(format!("these are no safetensors: {error}")))?;
        let find = |located: &Located<'_>| {
            let name = &located.name;
            file.tensor(name).or_else(|_| file.tensor(&format!("dense.{name}"))).ok()
        };
        // All that is trained must be there before memory for it is taken.
        for located in network.located() {
            match (find(&located), located.param.kind) {
                (Some(tensor), _) => {
                    check_shape(&located.name, tensor.shape(), located.param.shape)?;
                }
                (None, CtrParamKind::Trained) => {
                    return Err(Error::TensorMissing { name: located.name });
                }
                (None, CtrParamKind::Unused | CtrParamKind::Statistic) => {}
            }
        }
        let mut weights = CtrWeights::zeros(network);
        let mut lacks_statistics = None;
        for located in network.located() {
            match find(&located) {
                Some(tensor) => {
                    weights.fill(&located, widened(&located.name, &tensor)?.into_iter());
                }
                None if located.is_statistic() => lacks_statistics = Some(located.name),
                None => {}
            }
        }
        Ok(CtrWeights { lacks_statistics, ..weights })
    }

    /// Adds what HugeCTR's file of non-trainable parameters has, in JSON.
    pub fn with_statistics(mut self, network: &CtrNetwork, json: &[u8]) -> Result<Self, Error> {
        let wrong = |problem: String| {
            Error::CtrWeights(format!("the file of non-trainable parameters: {problem}"))
        };
        let file: StatisticsFile =
            serde_json::from_slice(json).map_err(|error| wrong(error.to_string()))?;
        let mut layers = file.layers.into_iter();
        let located: Vec<Located<'_>> = network.located().filter(Located::is_statistic).collect();
        for pair in located.chunks_exact(2) {
            let name = &pair[0].name;
            let layer = layers.next().ok_or_else(|| {
                wrong(format!("it has {} layers, and none for {name}", located.len() / 2))
            })?;
            for (located, numbers) in pair.iter().zip([layer.mean, layer.var]) {
                if numbers.len() != located.count() {
                    let (found, wanted) = (numbers.len(), located.count());
                    let name = &located.name;
                    return Err(wrong(format!("{found} numbers for {name}, which has {wanted}")));
                }
                self.fill(located, numbers.into_iter());
            }
        }
        match layers.count() {
            0 => {
                self.lacks_statistics = None;
                Ok(self)
            }
            more => Err(wrong(format!("{more} layers more than the network has"))),
        }
    }

    /// An error that names a layer without its statistics.
    pub(super) fn check(&self, network: &CtrNetwork) -> Result<(), Error> {
        if self.numbers.len() != network.graph.numbers {
            let (found, wanted) = (self.numbers.len(), network.graph.numbers);
            return Err(Error::CtrWeights(format!(
                "they are of another network: {found} numbers, not {wanted}"
            )));
        }
        match &self.lacks_statistics {
            None => Ok(()),
            Some(name) => Err(Error::CtrWeights(format!(
                "{name} and the other running statistics of BatchNorm are missing: add HugeCTR's \
                 file of non-trainable parameters (DENSE_FILE.ntp.json)"
            ))),
        }
    }

    fn zeros(network: &CtrNetwork) -> Self {
        let lacking = network.located().find(Located::is_statistic);
        let lacks_statistics = lacking.map(|located| located.name);
        CtrWeights { numbers: vec![0.0; network.graph.numbers], lacks_statistics }
    }

    fn fill(&mut self, located: &Located<'_>, numbers: impl Iterator<Item = f32>) {
        let to = &mut self.numbers[located.start..located.start + located.count()];
        to.iter_mut().zip(numbers).for_each(|(to, number)| *to = number);
    }
}

#[derive(Deserialize)]
struct StatisticsFile {
    layers: Vec<Statistics>,
}

#[derive(Deserialize)]
struct Statistics {
    mean: Vec<f32>,
    var: Vec<f32>,
}

/// Extents of 1 may be left out.
fn check_shape(name: &str, found: &[usize], wanted: [usize; 2]) -> Result<(), Error> {
    let extents = |shape: &[usize]| -> Vec<usize> {
        shape.iter().copied().filter(|extent| *extent != 1).collect()
    };
    match extents(found) == extents(&wanted) {
        true => Ok(()),
        false => Err(Error::TensorShape {
            name: name.into(),
            found: found.to_vec(),
            wanted: wanted.to_vec(),
        }),
    }
}

fn widened(name: &str, tensor: &TensorView<'_>) -> Result<Vec<f32>, Error> {
    fn each<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|bytes| read(*bytes)).collect()
    }
    let bytes = tensor.data();
    match tensor.dtype() {
        Dtype::F32 => Ok(each(bytes, f32::from_le_bytes)),
        Dtype::F64 => Ok(each(bytes, |bytes| f64::from_le_bytes(bytes) as f32)),
        Dtype::F16 => Ok(each(bytes, |bytes| f16::from_le_bytes(bytes).to_f32())),
        Dtype::BF16 => Ok(each(bytes, |bytes| bf16::from_le_bytes(bytes).to_f32())),
        other => Err(Error::TensorFormat {
            name: name.into(),
            found: other.to_string(),
            wanted: "F32, F64, F16, BF16",
        }),
    }
}
