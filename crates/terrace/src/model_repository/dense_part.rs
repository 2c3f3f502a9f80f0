//! What a version of a model computes over its tables' rows: HugeCTR's network with its weights, or
//! an ONNX file.

use std::path::Path;

use anyhow::{Context, Result, bail};
use terrace_model::ctr::{CtrInputs, CtrNetwork, CtrWeights};

use super::model_parameters::ModelParameters;
use super::version_files::VersionFiles;

pub enum DensePart {
    Network {
        network: CtrNetwork,
        weights: CtrWeights,
    },
    #[cfg(feature = "onnx")]
    Onnx(terrace_onnx::OnnxNetwork),
}

impl DensePart {
    /// What `config.pbtxt` says of it must be so.
    pub fn read(files: &VersionFiles, parameters: &ModelParameters) -> Result<Self> {
        let path = &files.network;
        let bytes = read(path)?;
        let wrong = || format!("cannot use the network {}", path.display());
        let part = match &files.dense {
            None => read_onnx(&bytes, parameters).with_context(wrong)?,
            Some(dense) => {
                if parameters.combiner.is_some() {
                    bail!(
                        "parameter \"combiner\" of config.pbtxt is for ONNX files; the network {} \
                         says its combiners itself",
                        path.display()
                    );
                }
                let network = CtrNetwork::parse(&bytes).with_context(wrong)?;
                let weights = read_weights(&network, dense, files.statistics.as_deref())?;
                DensePart::Network { network, weights }
            }
        };
        part.check(parameters)?;
        Ok(part)
    }

    pub fn inputs(&self) -> &CtrInputs {
        match self {
            DensePart::Network { network, .. } => network.inputs(),
            #[cfg(feature = "onnx")]
            DensePart::Onnx(network) => network.inputs(),
        }
    }

    fn output_width(&self) -> usize {
        match self {
            DensePart::Network { network, .. } => network.output_width(),
            #[cfg(feature = "onnx")]
            DensePart::Onnx(network) => network.output_width(),
        }
    }

    fn check(&self, parameters: &ModelParameters) -> Result<()> {
        let inputs = self.inputs();
        let slots: usize = inputs.tables.iter().map(|table| table.slots).sum();
        let size = inputs.tables.first().map_or(0, |table| table.dim);
        let has_one_size = inputs.tables.iter().all(|table| table.dim == size);
        let vector_size = parameters.vector_size.filter(|_| has_one_size);
        for (name, given, is) in [
            ("slots", parameters.slots, slots),
            ("des_feature_num", parameters.dense_features, inputs.dense_dim),
            ("label_dim", parameters.label_dim, self.output_width()),
            ("embedding_vector_size", vector_size, size),
        ] {
            if let Some(given) = given.filter(|given| *given != is) {
                bail!("parameter {name:?} of config.pbtxt is {given}, and the network has {is}");
            }
        }
        Ok(())
    }
}

#[cfg(feature = "onnx")]
fn read_onnx(bytes: &[u8], parameters: &ModelParameters) -> Result<DensePart> {
    let combiner = parameters.combiner.unwrap_or(terrace_kernels::Combiner::Sum);
    let network = terrace_onnx::OnnxNetwork::read(bytes, combiner).map_err(anyhow::Error::msg)?;
    Ok(DensePart::Onnx(network))
}

#[cfg(not(feature = "onnx"))]
fn read_onnx(_: &[u8], _: &ModelParameters) -> Result<DensePart> {
    bail!("this program was built without ONNX; build it with --features onnx")
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// HugeCTR's flat file, or safetensors; statistics of BatchNorm lie beside it.
fn read_weights(
    network: &CtrNetwork,
    path: &Path,
    statistics: Option<&Path>,
) -> Result<CtrWeights> {
    let bytes = read(path)?;
    let is_safetensors = path.extension().is_some_and(|it| it == "safetensors");
    let weights = match is_safetensors {
        true => CtrWeights::from_safetensors(network, &bytes),
        false => CtrWeights::from_hugectr(network, &bytes),
    };
    let wrong = || format!("cannot use the dense weights {}", path.display());
    let weights = weights.with_context(wrong)?;
    match statistics {
        Some(path) => {
            let json = read(path)?;
            let wrong = || format!("cannot use the statistics {}", path.display());
            weights.with_statistics(network, &json).with_context(wrong)
        }
        None => Ok(weights),
    }
}
