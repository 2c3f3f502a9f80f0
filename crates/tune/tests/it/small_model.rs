//! A model of random weights, a cache and a batch, all from a seed.

use std::sync::Arc;

use serde_json::json;
use terrace_cache::policy::{
    ArgValue, KvCacheOptions, KvCacheSpec, Policies, PolicyArgs, SlotFormat,
};
use terrace_device::Buffer;
use terrace_kernels::random::SplitMix;
use terrace_kernels::{BiasedWeight, Compute, CpuOptions, Matrix, Ops, TuneOps, WeightFormat};
use terrace_model::{DecoderSpec, DecoderTensors, LayerTensors};
use terrace_tune::golden::LitGptConfig;
use terrace_tune::head::Head;
use terrace_tune::{
    Batch, CellLength, Error, GradientOptions, GradientPass, Gradients, LatticeOptions, LossMean,
    Rounding, Training, TunedModel, WeightsAt,
};

#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub hidden: usize,
    pub biased: bool,
    pub head_norms: bool,
    pub tied: bool,
}

pub const VOCAB: usize = 23;

pub fn ops() -> Ops {
    Ops::cpu(CpuOptions { threads: 2, level: None, compute: Compute::F32 }).expect("a small case")
}

pub struct SmallModel {
    pub spec: DecoderSpec,
    tensors: DecoderTensors,
    shape: Shape,
}

impl SmallModel {
    pub fn new(shape: Shape, tokens: usize, seed: u64) -> Self {
        let width = shape.hidden + 5;
        let config = json!({
            "block_size": 64, "head_size": shape.head_dim, "intermediate_size": width,
            "n_embd": shape.hidden, "n_head": shape.heads, "n_layer": shape.layers,
            "n_query_groups": shape.kv_heads, "norm_eps": 1e-5, "padded_vocab_size": VOCAB,
            "rope_base": 10_000.0, "rope_n_elem": shape.head_dim, "attn_bias": shape.biased,
            "norm_qk": shape.head_norms, "parallel_residual": false, "scale_embeddings": false,
            "lm_head_bias": false, "mlp_class_name": "LLaMAMLP", "norm_class_name": "RMSNorm",
        });
        let config: LitGptConfig = serde_json::from_value(config).expect("a small case");
        let mut spec = config.spec(tokens, true).expect("a small case");
        spec.tied_head = shape.tied;
        let mut random = SplitMix::new(seed);
        let layers = (0..shape.layers).map(|_| layer(&mut random, shape, width)).collect();
        let tensors = DecoderTensors {
            embed: matrix(&mut random, VOCAB, shape.hidden),
            layers,
            final_norm: norm(&mut random, shape.hidden),
            head: (!shape.tied).then(|| matrix(&mut random, VOCAB, shape.hidden)),
            adapter: None,
        };
        SmallModel { spec, tensors, shape }
    }

    pub fn try_tuned(&self, ops: &TuneOps<'_>, training: Training) -> Result<TunedModel, Error> {
        self.try_headed(ops, training, Head::NextToken)
    }

    pub fn try_headed(
        &self,
        ops: &TuneOps<'_>,
        training: Training,
        head: Head,
    ) -> Result<TunedModel, Error> {
        TunedModel::new(ops, &self.spec, &self.tensors, training, head, WeightsAt::Device)
    }

    /// Branches' second matrices, which begin with zeros, are random too.
    pub fn tuned(&self, ops: &TuneOps<'_>, training: Training, seed: u64) -> TunedModel {
        let mut model = self.try_tuned(ops, training).expect("a small case");
        let infos = model.parameters().to_vec();
        let mut random = SplitMix::new(seed);
        model
            .change(ops, &mut |id, numbers| {
                if infos[id.index()].name.ends_with("lora_B.weight") {
                    let drawn = random.numbers(numbers.len());
                    numbers.iter_mut().zip(drawn).for_each(|(x, drawn)| *x = 0.3 * drawn);
                }
            })
            .expect("the host's arrays");
        model
    }

    /// No token is kept from leaving by its age or place, so that small caches evict.
    pub fn cache(&self, name: &str, slots: usize, chunk: usize) -> KvCacheSpec {
        let args: &[(&str, f64)] = match name.split('-').next() {
            Some("h2o") => &[("grace_period", 2.0), ("init_grace_tokens", 1.0)],
            Some("lastrec") => &[("init_grace_tokens", 2.0)],
            _ => &[],
        };
        let args = args.iter().map(|(key, x)| ((*key).to_owned(), ArgValue::Number(*x)));
        let options = KvCacheOptions {
            name: name.into(),
            cache_length: vec![slots],
            chunk_size: chunk,
            randomize_chunk_sizes: false,
            cache_kwargs: PolicyArgs::new(args),
            compat: None,
        };
        let dims = vec![[self.shape.head_dim; 2]; self.shape.layers];
        KvCacheSpec::new(&options, &Policies::built_in(), &dims).expect("a small case")
    }
}

fn layer(random: &mut SplitMix, shape: Shape, width: usize) -> LayerTensors {
    let Shape { hidden, head_dim, .. } = shape;
    let mut product = |rows: usize, columns: usize, biased: bool| {
        let weight = matrix(random, rows, columns);
        BiasedWeight { weight, bias: biased.then(|| random.numbers(rows)) }
    };
    let [queries, kvs] = [shape.heads, shape.kv_heads].map(|heads| heads * head_dim);
    let query = product(queries, hidden, shape.biased);
    let key = product(kvs, hidden, shape.biased);
    let value = product(kvs, hidden, shape.biased);
    let output = product(hidden, queries, false);
    let [gate, up] = [(); 2].map(|()| product(width, hidden, false));
    let down = product(hidden, width, false);
    let head_norm = |random: &mut SplitMix| shape.head_norms.then(|| norm(random, head_dim));
    LayerTensors {
        attention_norm: norm(random, hidden),
        query,
        key,
        value,
        query_norm: head_norm(random),
        key_norm: head_norm(random),
        output,
        ffn_norm: norm(random, hidden),
        gate,
        up,
        down,
    }
}

fn norm(random: &mut SplitMix, dim: usize) -> Vec<f32> {
    random.numbers(dim).into_iter().map(|x| 1.0 + 0.3 * x).collect()
}

fn matrix(random: &mut SplitMix, rows: usize, columns: usize) -> Matrix {
    let scale = (3.0 / columns as f32).sqrt();
    let numbers = random.numbers(rows * columns).into_iter().map(|x| x * scale);
    let bytes: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
    let mut buffer = Buffer::zeroed(bytes.len(), "random weights").expect("a small case");
    buffer.bytes_mut().copy_from_slice(&bytes);
    Matrix::new(WeightFormat::F32, rows, columns, Arc::new(buffer))
}

/// Ids of two sequences, and targets of which some are none.
pub fn batch(tokens: usize, targets: usize, seed: u64) -> [Vec<i32>; 2] {
    let mut random = SplitMix::new(seed);
    let ids = (0..2 * tokens).map(|_| random.below(VOCAB) as i32).collect();
    let targets = (0..2 * targets).map(|_| match random.below(5) {
        0 => -100,
        _ => random.below(VOCAB) as i32,
    });
    [ids, targets.collect()]
}

pub fn options(layers_per_cell: usize, multiplier: f64) -> GradientOptions {
    GradientOptions {
        loss_mean: LossMean::Targets,
        rounding: Rounding::EachRow,
        dropout_seed: 21,
        lattice: LatticeOptions {
            layers_per_cell,
            cell_length: CellLength::Slots { multiplier },
            single_tokens_for_targets: false,
            chunk_seed: 0,
        },
        layer_checkpoints: SlotFormat::Plain,
        kv_checkpoints: SlotFormat::Plain,
        kv_on_host: false,
        logits_most: 64,
    }
}

/// Loss and gradients when a replay is followed.
pub fn replayed(
    pass: &GradientPass<'_>,
    batch: &Batch<'_>,
    replay: &terrace_tune::BatchReplay,
) -> (f64, Gradients) {
    let mut gradients = pass.model.gradients(&pass.ops).expect("a small case");
    let found = pass.run_replay(batch, replay.clone(), &mut gradients).expect("a small case");
    (found.loss, gradients)
}
