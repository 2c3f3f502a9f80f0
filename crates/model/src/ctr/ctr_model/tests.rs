//! Layers and small networks against what PyTorch computed of them (`testdata/ctr_layers`, which
//! `tools/golden/ctr_layers.py` writes).

use std::path::Path;

use terrace_device::{DType, Device, View, ViewMut, Workspace};
use terrace_golden::GoldenTensors;
use terrace_kernels::{Compute, CpuLevel, CpuOptions, Ops};

use super::*;
use crate::ctr::{CtrCtx, CtrInput, CtrParamKind};

/// What f32 arithmetic may be from double precision, relative to numbers above 1.
const TOLERANCE: f32 = 3e-6;
/// What products of bf16 may be.
const BF16_TOLERANCE: f32 = 0.05;

struct Fixture {
    name: String,
    network: CtrNetwork,
    file: Vec<u8>,
    tensors: GoldenTensors,
}

impl Fixture {
    fn all() -> Vec<Fixture> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/ctr_layers");
        let entries = std::fs::read_dir(folder).expect("a folder of cases");
        let files = entries.map(|entry| entry.expect("a readable folder").path());
        let mut cases: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
        cases.sort();
        assert!(cases.len() > 60, "{} cases", cases.len());
        cases.iter().map(|path| Fixture::open(path)).collect()
    }

    fn open(path: &Path) -> Fixture {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let network = CtrNetwork::parse(&std::fs::read(path).expect("a network"));
        let network = network.unwrap_or_else(|error| panic!("{name}: {error}"));
        let tensors = path.with_extension("safetensors");
        let file = std::fs::read(&tensors).expect("tensors");
        Fixture { name, network, file, tensors: GoldenTensors::read(&tensors).expect("tensors") }
    }

    fn named_weights(&self) -> CtrWeights {
        let weights = CtrWeights::from_safetensors(&self.network, &self.file);
        weights.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// As HugeCTR would have written them: trained numbers, and statistics in JSON.
    fn hugectr_weights(&self) -> CtrWeights {
        let (mut flat, mut statistics) = (Vec::new(), Vec::new());
        for param in self.network.params() {
            let numbers = self.tensors.f32s(&param.name).expect("a parameter");
            match param.kind {
                CtrParamKind::Statistic => statistics.push(numbers.to_vec()),
                CtrParamKind::Trained | CtrParamKind::Unused => {
                    flat.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
                }
            }
        }
        let weights = CtrWeights::from_hugectr(&self.network, &flat).expect("all parameters");
        let layer = |pair: &[Vec<f32>]| serde_json::json!({"type": "BatchNorm", "mean": pair[0], "var": pair[1]});
        let layers: Vec<_> = statistics.chunks_exact(2).map(layer).collect();
        let json = serde_json::json!({ "layers": layers }).to_string();
        weights.with_statistics(&self.network, json.as_bytes()).expect("all statistics")
    }

    /// The result of some of the samples, in memory that is not a number anywhere.
    fn run(&self, ops: &Ops, model: &CtrModel, samples: std::ops::Range<usize>) -> Vec<f32> {
        let count = samples.len();
        let rows = |name: &str, width: usize| -> Vec<f32> {
            let numbers = self.tensors.f32s(name).expect("an input");
            numbers[samples.start * width..samples.end * width].to_vec()
        };
        let inputs = model.inputs();
        let dense = (inputs.dense_dim > 0).then(|| rows("dense", inputs.dense_dim));
        let pooled: Vec<(Vec<f32>, usize)> = inputs
            .tables
            .iter()
            .map(|table| {
                let width = table.pooled_width();
                (rows(&format!("pooled.{}", table.name), width), width)
            })
            .collect();
        let views: Vec<View<'_>> =
            pooled.iter().map(|(rows, width)| View::of(rows, [count, *width])).collect();
        let workspace = poisoned(model.workspace_bytes(ops, count));
        let mut out = vec![f32::NAN; count * model.output_width()];
        let dense = dense.as_ref().map(|dense| View::of(dense, [count, inputs.dense_dim]));
        let ctx = CtrCtx { ops, workspace: &workspace };
        let to = ViewMut::of(&mut out, [count, model.output_width()]);
        model.forward(ctx, CtrInput { dense, pooled: &views }, to);
        out
    }

    fn samples(&self) -> usize {
        self.tensors.shape("out").expect("a result")[0]
    }

    fn run_all(&self, ops: &Ops, model: &CtrModel) -> Vec<f32> {
        self.run(ops, model, 0..self.samples())
    }

    /// The largest difference from the result that is wanted.
    fn error(&self, found: &[f32]) -> f32 {
        let want = self.tensors.f64s("out").expect("a result");
        assert_eq!(found.len(), want.len(), "{}: numbers of the result", self.name);
        let errors = found.iter().zip(want).map(|(found, want)| {
            let error = (f64::from(*found) - want).abs() / want.abs().max(1.0);
            if error.is_nan() { f32::INFINITY } else { error as f32 }
        });
        errors.fold(0.0, f32::max)
    }
}

fn poisoned(bytes: usize) -> Workspace {
    let mut workspace = Workspace::new(&Device::Cpu, bytes.max(128)).expect("a small workspace");
    let numbers = workspace.len() / 4;
    workspace.take(DType::F32, [numbers]).as_mut_slice().fill(f32::NAN);
    workspace.reset();
    workspace
}

fn ops(level: Option<CpuLevel>, compute: Compute) -> Ops {
    Ops::cpu(CpuOptions { threads: 2, level, compute }).expect("the level is available")
}

#[test]
fn every_layer_computes_what_pytorch_does() {
    let fixtures = Fixture::all();
    for level in CpuLevel::available() {
        let ops = ops(Some(level), Compute::F32);
        let mut worst = (0.0, "");
        for fixture in &fixtures {
            // Inputs of products as they are, and as tensor cores want them.
            for multiple in [1, 8] {
                let (network, weights) = (&fixture.network, fixture.named_weights());
                let model = CtrModel::place_with(&ops, network, &weights, multiple);
                let found = fixture.run_all(&ops, &model.expect("weights that fit"));
                let error = fixture.error(&found);
                assert!(error <= TOLERANCE, "{}, {multiple}: {error}", fixture.name);
                worst = if worst.0 < error { (error, &fixture.name) } else { worst };
            }
        }
        println!("{}: {worst:?}", level.name());
    }
}

#[test]
fn hugectrs_files_give_the_same_as_weights_by_name() {
    let ops = ops(None, Compute::F32);
    for fixture in Fixture::all() {
        let results = [fixture.named_weights(), fixture.hugectr_weights()].map(|weights| {
            let model = CtrModel::place(&ops, &fixture.network, &weights);
            fixture.run_all(&ops, &model.expect("weights that fit"))
        });
        assert_eq!(results[0], results[1], "{}", fixture.name);
    }
}

#[test]
fn a_sample_gives_the_same_alone_unless_the_network_says_otherwise() {
    let ops = ops(None, Compute::F32);
    let mut mixing = Vec::new();
    for fixture in Fixture::all() {
        let model = CtrModel::place(&ops, &fixture.network, &fixture.named_weights());
        let model = model.expect("weights that fit");
        if model.mixes_samples() {
            mixing.push(fixture.name);
            continue;
        }
        let all = fixture.run_all(&ops, &model);
        let alone = (0..fixture.samples()).flat_map(|at| fixture.run(&ops, &model, at..at + 1));
        assert_eq!(alone.collect::<Vec<_>>(), all, "{}", fixture.name);
    }
    assert_eq!(mixing, ["dice", "net_bst_concat", "net_bst_mean", "net_din"]);
}

#[test]
fn products_of_bf16_stay_near() {
    let ops = ops(None, Compute::Fast);
    for fixture in Fixture::all() {
        let model = CtrModel::place(&ops, &fixture.network, &fixture.named_weights());
        let error = fixture.error(&fixture.run_all(&ops, &model.expect("weights that fit")));
        assert!(error <= BF16_TOLERANCE, "{}: {error}", fixture.name);
    }
}

#[test]
fn no_samples_give_nothing() {
    let ops = ops(None, Compute::F32);
    for fixture in Fixture::all().into_iter().take(3) {
        let model = CtrModel::place(&ops, &fixture.network, &fixture.named_weights());
        assert!(fixture.run(&ops, &model.expect("weights that fit"), 0..0).is_empty());
    }
}
