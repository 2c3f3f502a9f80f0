//! What plans cost, and random networks against a plain interpreter.

use terrace_device::{DType, Device, View, ViewMut, Workspace};
use terrace_kernels::random::SplitMix;
use terrace_kernels::{Compute, CpuOptions, Ops};
use terrace_testkit::golden_set;

use super::*;
use crate::ctr::{CtrCtx, CtrInput, CtrModel, CtrNetwork, CtrWeights};

fn golden_network(name: &str) -> CtrNetwork {
    let path = golden_set("ctr").join(name).join("1").join(format!("{name}.json"));
    CtrNetwork::parse(&std::fs::read(path).expect("a network")).expect("a good network")
}

/// A plan's ops by name, of HugeCTR's samples; those of layers by the layer.
fn ops_of(network: &CtrNetwork) -> Vec<String> {
    let plan = CtrPlan::new(&network.graph, 1);
    let name = |step: &PlannedStep| match step {
        PlannedStep::Dense { .. } => "dense".to_owned(),
        PlannedStep::Clear { .. } => "clear".to_owned(),
        PlannedStep::Arrange { .. } => "arrange".to_owned(),
        PlannedStep::Activate { .. } => "activate".to_owned(),
        PlannedStep::Compute { node, .. } => network.graph.nodes[*node].layer_name.clone(),
    };
    plan.steps.iter().map(name).collect()
}

/// Views, functions of products and what a concatenation reads cost no op.
#[test]
fn only_what_computes_costs_an_op() {
    let check = |name: &str, want: &[&str]| assert_eq!(ops_of(&golden_network(name)), want);
    check("dcn", &["dense", "multicross1", "fc1", "fc2", "fc_out"]);
    check("dlrm", &["dense", "fc1", "fc2", "interaction1", "fc3", "fc4", "fc5"]);
    check("wdl", &["dense", "reduce1", "fc1", "fc2", "fc_out", "add1"]);
    // Of the embedding's eleven columns the first ten go one way, the last another.
    check(
        "deepfm",
        &[
            "dense",
            "weight_multiply1",
            "weight_multiply2",
            "arrange",
            "fc1",
            "fc2",
            "fc3",
            "fc_out",
            "fmorder2",
            "reducesum1",
            "arrange",
            "reducesum2",
            "add",
        ],
    );
}

/// The two hidden layers of a tower share memory with what was before them.
#[test]
fn tensors_that_are_not_needed_any_more_give_their_memory_back() {
    let network = golden_network("dlrm");
    let plan = CtrPlan::new(&network.graph, 1);
    let (mut made, mut slots) = (0, plan.slots.clone());
    for step in &plan.steps {
        made += step.writes().iter().map(|place| place.rows * place.width).sum::<usize>();
    }
    slots.sort_unstable();
    let pooled = network.inputs().tables[0].pooled_width();
    // The embeddings, what is made of them, and two more at a time.
    assert_eq!(slots.pop(), Some(pooled));
    assert!(slots.iter().sum::<usize>() < made, "{slots:?} of {made}");
    assert!(slots.len() <= 3, "{slots:?}");
}

/// Numbers of all samples, row by row.
#[derive(Clone)]
struct Tensor {
    rows: usize,
    width: usize,
    numbers: Vec<f64>,
}

impl Tensor {
    fn map(&self, f: impl Fn(f64) -> f64) -> Tensor {
        Tensor { numbers: self.numbers.iter().map(|x| f(*x)).collect(), ..*self }
    }

    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.numbers.chunks_exact(self.width)
    }
}

/// A network in the making, and what each of its tensors is.
struct RandomNetwork {
    random: SplitMix,
    layers: Vec<String>,
    tensors: Vec<Tensor>,
    weights: Vec<f32>,
}

const SAMPLES: usize = 3;
const SLOTS: usize = 4;
const DIM: usize = 6;
const DENSE: usize = 10;

impl RandomNetwork {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix::new(seed);
        let mut tensor = |width: usize| {
            let numbers = random.numbers(SAMPLES * width).into_iter().map(f64::from).collect();
            Tensor { rows: 1, width, numbers }
        };
        let tensors = vec![tensor(DENSE), tensor(SLOTS * DIM)];
        let layers = vec![
            format!(
                r#"{{"type": "Data", "dense": {{"top": "t0", "dense_dim": {DENSE}}},
                "sparse": [{{"top": "keys", "slot_num": {SLOTS}, "nnz_per_slot": 1}}]}}"#
            ),
            format!(
                r#"{{"type": "LocalizedSlotSparseEmbeddingHash", "bottom": "keys", "top": "e",
                "sparse_embedding_hparam": {{"embedding_vec_size": {DIM}, "combiner": 0}}}}"#
            ),
            format!(
                r#"{{"type": "Reshape", "bottom": "e", "top": "t1", "leading_dim": {}}}"#,
                SLOTS * DIM
            ),
        ];
        RandomNetwork { random, layers, tensors, weights: Vec::new() }
    }

    /// A tensor of those that there are, the last ones rather.
    fn pick(&mut self) -> usize {
        let last = self.tensors.len() - 1;
        last - self.random.below(4).min(last)
    }

    fn add(&mut self, kind: &str, bottoms: &[usize], options: &str, tensor: Tensor) {
        let bottoms: Vec<String> = bottoms.iter().map(|at| format!("\"t{at}\"")).collect();
        self.layers.push(format!(
            r#"{{"type": "{kind}", "bottom": [{}], "top": "t{}"{options}}}"#,
            bottoms.join(", "),
            self.tensors.len()
        ));
        self.tensors.push(tensor);
    }

    fn add_any(&mut self) {
        let at = self.pick();
        let x = self.tensors[at].clone();
        match self.random.below(8) {
            0 => self.add("ReLU", &[at], "", x.map(|x| x.max(0.0))),
            1 => self.add("Sigmoid", &[at], "", x.map(|x| 1.0 / (1.0 + (-x).exp()))),
            2 => self.add("Dropout", &[at], "", x),
            3 => self.add_product(at, &x),
            4 => self.add_slice(at, &x),
            5 => self.add_reshape(at, &x),
            6 => self.add_sum(at, &x),
            _ => self.add_concat(at, &x),
        }
    }

    fn add_product(&mut self, at: usize, x: &Tensor) {
        let outputs = 1 + self.random.below(12);
        let scale = 1.0 / x.width as f32;
        let weights = self.random.numbers(x.width * outputs).into_iter().map(|w| w * scale);
        let (weights, bias) = (weights.collect::<Vec<_>>(), self.random.numbers(outputs));
        let mut numbers = Vec::new();
        for row in x.rows() {
            for output in 0..outputs {
                let products = row
                    .iter()
                    .enumerate()
                    .map(|(column, x)| x * f64::from(weights[column * outputs + output]));
                numbers.push(products.sum::<f64>() + f64::from(bias[output]));
            }
        }
        self.weights.extend(weights.into_iter().chain(bias));
        let options = format!(r#", "fc_param": {{"num_output": {outputs}}}"#);
        self.add("InnerProduct", &[at], &options, Tensor { rows: x.rows, width: outputs, numbers });
    }

    fn add_slice(&mut self, at: usize, x: &Tensor) {
        let start = self.random.below(x.width);
        let width = 1 + self.random.below(x.width - start);
        let numbers = x.rows().flat_map(|row| row[start..start + width].to_vec()).collect();
        let options = format!(r#", "ranges": [[{start}, {}]]"#, start + width);
        self.add("Slice", &[at], &options, Tensor { width, numbers, ..*x });
    }

    fn add_reshape(&mut self, at: usize, x: &Tensor) {
        let all = x.rows * x.width;
        let widths: Vec<usize> = (1..=all).filter(|width| all.is_multiple_of(*width)).collect();
        let width = widths[self.random.below(widths.len())];
        let options = format!(r#", "leading_dim": {width}"#);
        let reshaped = Tensor { rows: all / width, width, numbers: x.numbers.clone() };
        self.add("Reshape", &[at], &options, reshaped);
    }

    /// Of tensors that have the same shape, perhaps of one with itself.
    fn add_sum(&mut self, at: usize, x: &Tensor) {
        let alike: Vec<usize> = (0..self.tensors.len())
            .filter(|other| {
                let other = &self.tensors[*other];
                (other.rows, other.width) == (x.rows, x.width)
            })
            .collect();
        let other = alike[self.random.below(alike.len())];
        let pairs = x.numbers.iter().zip(&self.tensors[other].numbers);
        let numbers = pairs.map(|(a, b)| a + b).collect();
        self.add("Add", &[at, other], "", Tensor { numbers, ..*x });
    }

    fn add_concat(&mut self, at: usize, x: &Tensor) {
        let as_many: Vec<usize> =
            (0..self.tensors.len()).filter(|other| self.tensors[*other].rows == x.rows).collect();
        let mut bottoms = vec![at];
        for _ in 0..self.random.below(3) {
            bottoms.push(as_many[self.random.below(as_many.len())]);
        }
        let width = bottoms.iter().map(|at| self.tensors[*at].width).sum();
        let mut numbers = Vec::new();
        for row in 0..SAMPLES * x.rows {
            for bottom in &bottoms {
                let bottom = &self.tensors[*bottom];
                numbers.extend(&bottom.numbers[row * bottom.width..(row + 1) * bottom.width]);
            }
        }
        self.add("Concat", &bottoms, "", Tensor { rows: x.rows, width, numbers });
    }

    /// Ends with one row for each sample.
    fn finish(&mut self) -> (CtrNetwork, Vec<f64>) {
        let at = self.tensors.len() - 1;
        let x = self.tensors[at].clone();
        let width = x.rows * x.width;
        let options = format!(r#", "leading_dim": {width}"#);
        let numbers = x.numbers.clone();
        self.add("Reshape", &[at], &options, Tensor { rows: 1, width, numbers: x.numbers });
        let json = format!(r#"{{"layers": [{}]}}"#, self.layers.join(",\n"));
        let network = CtrNetwork::parse(json.as_bytes());
        (network.unwrap_or_else(|error| panic!("{error} in\n{json}")), numbers)
    }

    fn input(&self, tensor: usize) -> Vec<f32> {
        self.tensors[tensor].numbers.iter().map(|x| *x as f32).collect()
    }
}

#[test]
fn random_networks_compute_what_an_interpreter_does() {
    let ops = Ops::cpu(CpuOptions { threads: 1, level: None, compute: Compute::F32 });
    let ops = ops.expect("a cpu");
    for seed in 0..600 {
        let mut made = RandomNetwork::new(seed);
        for _ in 0..1 + seed as usize % 40 {
            made.add_any();
        }
        let (network, want) = made.finish();
        let flat: Vec<u8> = made.weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
        let weights = CtrWeights::from_hugectr(&network, &flat).expect("all weights");
        for multiple in [1, 4, 8] {
            let model = CtrModel::place_with(&ops, &network, &weights, multiple);
            let found = run(&ops, &model.expect("weights that fit"), &made);
            for (found, want) in found.iter().zip(&want) {
                let error = (f64::from(*found) - want).abs() / want.abs().max(1.0);
                let layers = || made.layers.join("\n");
                assert!(error < 1e-5, "seed {seed}, {multiple}: {found}, not {want}\n{}", layers());
            }
        }
    }
}

fn run(ops: &Ops, model: &CtrModel, made: &RandomNetwork) -> Vec<f32> {
    let [dense, pooled] = [0, 1].map(|tensor| made.input(tensor));
    let bytes = model.workspace_bytes(ops, SAMPLES).max(128);
    let mut workspace = Workspace::new(&Device::Cpu, bytes).expect("a small workspace");
    let numbers = workspace.len() / 4;
    workspace.take(DType::F32, [numbers]).as_mut_slice().fill(f32::NAN);
    workspace.reset();
    let mut out = vec![f32::NAN; SAMPLES * model.output_width()];
    let to = ViewMut::of(&mut out, [SAMPLES, model.output_width()]);
    let dense = Some(View::of(&dense, [SAMPLES, DENSE]));
    let pooled = [View::of(&pooled, [SAMPLES, SLOTS * DIM])];
    let ctx = CtrCtx { ops, workspace: &workspace };
    model.forward(ctx, CtrInput { dense, pooled: &pooled }, to);
    out
}
