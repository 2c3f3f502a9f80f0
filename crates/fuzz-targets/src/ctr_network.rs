//! The network of a click-through model, which is computed if it is small.

use std::sync::OnceLock;

use terrace_device::{DType, Device, View, ViewMut, Workspace};
use terrace_kernels::{Compute, CpuOptions, Ops};
use terrace_model::ctr::{
    CtrCtx, CtrInput, CtrModel, CtrNetwork, CtrParam, CtrParamKind, CtrWeights,
};

const SAMPLES: usize = 2;
/// More parameters, or more memory for its tensors, would take a fuzzer's time.
const NUMBERS_MOST: usize = 1 << 16;
const WORKSPACE_MOST: usize = 1 << 22;
const ERROR_MOST: usize = 8 << 10;

pub fn run(input: &[u8]) -> bool {
    let network = match CtrNetwork::parse(input) {
        Ok(network) => network,
        Err(error) => {
            let text = error.to_string();
            assert!((1..ERROR_MOST).contains(&text.len()), "{text}");
            return false;
        }
    };
    assert!(network.output_width() > 0 && !network.outputs().is_empty());
    let params: Vec<CtrParam> = network.params().collect();
    let numbers = params.iter().map(|param| param.shape[0] as u128 * param.shape[1] as u128);
    if numbers.sum::<u128>() <= NUMBERS_MOST as u128 {
        compute(&network, &params);
    }
    true
}

/// A sample gives the same alone, unless the network says otherwise.
fn compute(network: &CtrNetwork, params: &[CtrParam]) {
    static OPS: OnceLock<Ops> = OnceLock::new();
    let options = CpuOptions { threads: 1, level: None, compute: Compute::F32 };
    let ops = OPS.get_or_init(|| Ops::cpu(options).expect("one thread"));
    let weights = weights(network, params);
    let model = CtrModel::place(ops, network, &weights).expect("weights that fit");
    let bytes = model.workspace_bytes(ops, SAMPLES);
    if WORKSPACE_MOST < bytes {
        return;
    }
    let all = outputs(ops, &model, 0..SAMPLES);
    if !model.mixes_samples() {
        let alone = (0..SAMPLES).flat_map(|sample| outputs(ops, &model, sample..sample + 1));
        assert_eq!(alone.collect::<Vec<_>>(), all);
    }
}

/// As HugeCTR's files have them.
fn weights(network: &CtrNetwork, params: &[CtrParam]) -> CtrWeights {
    let (mut flat, mut statistics) = (Vec::new(), Vec::new());
    for param in params {
        let numbers = (0..param.shape[0] * param.shape[1]).map(|at| (at % 7) as f32 * 0.125);
        match param.kind {
            CtrParamKind::Statistic => statistics.push(numbers.collect::<Vec<f32>>()),
            _ => flat.extend(numbers.flat_map(f32::to_le_bytes)),
        }
    }
    let layer = |pair: &[Vec<f32>]| serde_json::json!({"mean": pair[0], "var": pair[1]});
    let layers: Vec<_> = statistics.chunks_exact(2).map(layer).collect();
    let file = serde_json::json!({ "layers": layers }).to_string();
    let weights = CtrWeights::from_hugectr(network, &flat).expect("all parameters");
    weights.with_statistics(network, file.as_bytes()).expect("all statistics")
}

/// The bits of some samples' outputs, computed in memory that is not a number anywhere.
fn outputs(ops: &Ops, model: &CtrModel, samples: std::ops::Range<usize>) -> Vec<u32> {
    let (count, inputs) = (samples.len(), model.inputs());
    let rows = |width: usize| -> Vec<f32> {
        samples
            .clone()
            .flat_map(|at| (0..width).map(move |i| ((at + i) % 5) as f32 - 2.0))
            .collect()
    };
    let dense = rows(inputs.dense_dim);
    let pooled: Vec<Vec<f32>> =
        inputs.tables.iter().map(|table| rows(table.pooled_width())).collect();
    let views = pooled.iter().map(|rows| View::of(rows, [count, rows.len() / count]));
    let views: Vec<View<'_>> = views.collect();
    let bytes = model.workspace_bytes(ops, count).max(128);
    let mut workspace = Workspace::new(&Device::Cpu, bytes).expect("a small workspace");
    let numbers = workspace.len() / 4;
    workspace.take(DType::F32, [numbers]).as_mut_slice().fill(f32::NAN);
    workspace.reset();
    let width = model.output_width();
    let mut out = vec![f32::NAN; count * width];
    let dense = (inputs.dense_dim > 0).then(|| View::of(&dense, [count, inputs.dense_dim]));
    let ctx = CtrCtx { ops, workspace: &workspace };
    let to = ViewMut::of(&mut out, [count, width]);
    model.forward(ctx, CtrInput { dense, pooled: &views }, to);
    out.into_iter().map(f32::to_bits).collect()
}
