//! A layer or a small network with its weights, a batch, and what PyTorch computed of it.

use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use terrace_device::{DType, Device, View, Workspace};
use terrace_golden::{GoldenFolder, GoldenTensors};
use terrace_kernels::Ops;

use crate::ctr::{CtrCtx, CtrInput, CtrModel, CtrNetwork, CtrParamKind, CtrWeights};
use crate::error::Error;
use crate::golden::placed::Placed;

pub(super) struct LayerCase {
    pub name: String,
    pub network: CtrNetwork,
    tensors: GoldenTensors,
    /// The file of the tensors.
    file: Vec<u8>,
}

#[derive(Deserialize)]
struct About {
    file: String,
    layers: Value,
}

impl LayerCase {
    /// All cases of a kind in a folder.
    pub fn all(path: &Path, folder: &GoldenFolder, kind: &str) -> Result<Vec<LayerCase>, Error> {
        let cases = folder.cases::<About>(kind)?.into_iter().map(|case| {
            let network = json!({ "layers": case.about.layers }).to_string();
            let malformed = |error: Error| Error::Malformed {
                path: path.join("manifest.json"),
                problem: format!("{}: {error}", case.name),
            };
            let network = CtrNetwork::parse(network.as_bytes()).map_err(malformed)?;
            let path = path.join(case.about.file);
            let file = std::fs::read(&path).map_err(|source| Error::Read { path, source })?;
            Ok(LayerCase { name: case.name, network, tensors: case.tensors, file })
        });
        cases.collect()
    }

    pub fn named_weights(&self) -> Result<CtrWeights, Error> {
        CtrWeights::from_safetensors(&self.network, &self.file)
    }

    /// As HugeCTR writes them: trained numbers one after the other, and statistics in JSON.
    pub fn hugectr_weights(&self) -> Result<CtrWeights, Error> {
        let (mut flat, mut statistics) = (Vec::new(), Vec::new());
        for param in self.network.params() {
            let numbers = self.tensors.f32s(&param.name)?;
            match param.kind {
                CtrParamKind::Statistic => statistics.push(numbers),
                CtrParamKind::Trained | CtrParamKind::Unused => {
                    flat.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
                }
            }
        }
        let layer = |pair: &[&[f32]]| json!({"mean": pair[0], "var": pair[1]});
        let layers: Vec<Value> = statistics.chunks_exact(2).map(layer).collect();
        let statistics = json!({ "layers": layers }).to_string();
        let weights = CtrWeights::from_hugectr(&self.network, &flat)?;
        weights.with_statistics(&self.network, statistics.as_bytes())
    }

    /// f32 `[samples, outputs]`
    pub fn wanted(&self) -> Result<&[f32], Error> {
        Ok(self.tensors.f32s("out")?)
    }

    pub fn samples(&self) -> Result<usize, Error> {
        let [samples, _] = self.tensors.dims("out")?;
        Ok(samples)
    }

    /// What some of the samples give, computed in memory that is not a number anywhere.
    pub fn run(
        &self,
        ops: &Ops,
        model: &CtrModel,
        samples: Range<usize>,
    ) -> Result<Vec<f32>, Error> {
        let (device, count, inputs) = (ops.device(), samples.len(), model.inputs());
        let place = |name: &str, width: usize| {
            let numbers = self.tensors.f32(name, [self.samples()?, width])?;
            let numbers = &numbers[samples.start * width..samples.end * width];
            Placed::f32s(&device, numbers, [count, width])
        };
        let dense = match inputs.dense_dim {
            0 => None,
            dim => Some(place("dense", dim)?),
        };
        let tables = inputs.tables.iter();
        let pooled: Vec<Placed> = tables
            .map(|table| place(&format!("pooled.{}", table.name), table.pooled_width()))
            .collect::<Result<_, Error>>()?;
        let pooled: Vec<View<'_>> = pooled.iter().map(Placed::view).collect();
        let workspace = poisoned(&device, model.workspace_bytes(ops, count))?;
        let mut out = Placed::zeros(&device, DType::F32, [count, model.output_width()])?;
        let input = CtrInput { dense: dense.as_ref().map(Placed::view), pooled: &pooled };
        model.forward(CtrCtx { ops, workspace: &workspace }, input, out.view_mut());
        out.numbers(&device)
    }
}

fn poisoned(device: &Device, bytes: usize) -> Result<Workspace, Error> {
    let mut workspace = Workspace::new(device, bytes.max(128))?;
    let count = workspace.len() / 4;
    let mut numbers = workspace.take(DType::F32, [count]);
    match device {
        Device::Cpu => numbers.as_mut_slice().fill(f32::NAN),
        Device::Cuda(device) => device.write(&numbers, &f32::NAN.to_le_bytes().repeat(count))?,
    }
    workspace.reset();
    Ok(workspace)
}
