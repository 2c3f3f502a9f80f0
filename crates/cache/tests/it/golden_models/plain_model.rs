//! A language model in plain loops: just what the golden runs need around their caches.

use terrace_testkit::GoldenKv;

pub struct PlainModel<'a> {
    weights: &'a GoldenKv,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    hidden: usize,
    eps: f64,
    /// Radians per position of each pair `i`, `i + pairs`.
    rotation: Vec<f32>,
    pub attn_scale: f32,
}

/// Rows of one chunk of a batch for its layer's cache: `[rows][heads][tokens][head_dim]`.
pub struct Projected {
    pub query: Vec<f32>,
    pub keys: Vec<f32>,
    pub values: Vec<f32>,
}

impl<'a> PlainModel<'a> {
    /// `context_tokens`: how long the sequence is, for the rotation.
    pub fn new(run: &GoldenKv, weights: &'a GoldenKv, context_tokens: usize) -> Self {
        let config = &run.about["config"];
        let count = |key: &str| config[key].as_u64().expect("a count") as usize;
        let number = |key: &str| config[key].as_f64().expect("a number");
        let (rotary_dim, head_dim) = (count("rope_n_elem"), count("head_size"));
        let trained = number("block_size");
        let factor = (context_tokens as f64 / trained).max(1.0);
        let yarn = run.flag("yarn");
        let frequency = |pair: usize| {
            let plain = number("rope_base").powf(-2.0 * pair as f64 / rotary_dim as f64);
            let rotations = trained * plain / std::f64::consts::TAU;
            let keep = if yarn { ((rotations - 1.0) / 31.0).clamp(0.0, 1.0) } else { 0.0 };
            ((1.0 - keep) * plain / factor + keep * plain) as f32
        };
        let growth = if yarn { (0.1 * factor.ln() + 1.0).powi(2) } else { 1.0 };
        PlainModel {
            weights,
            layers: count("n_layer"),
            heads: count("n_head"),
            kv_heads: count("n_query_groups"),
            head_dim,
            hidden: count("n_embd"),
            eps: number("norm_eps"),
            rotation: (0..rotary_dim / 2).map(frequency).collect(),
            attn_scale: (growth / (head_dim as f64).sqrt()) as f32,
        }
    }

    /// ids: `[rows][tokens]` · gives `[rows][tokens][hidden]`
    pub fn embed(&self, ids: &[i32]) -> Vec<f32> {
        let table = self.weights.f32("transformer.wte.weight");
        let row = |id: &i32| &table[*id as usize * self.hidden..][..self.hidden];
        ids.iter().flat_map(row).copied().collect()
    }

    /// x: `[rows][tokens][hidden]`, of which each row begins at `position`.
    pub fn project(&self, layer: usize, x: &[f32], tokens: usize, position: usize) -> Projected {
        let (heads, kv_heads, dim) = (self.heads, self.kv_heads, self.head_dim);
        let rows = x.len() / (tokens * self.hidden);
        let normed = self.norm(x, &format!("transformer.h.{layer}.norm_1.weight"), self.hidden);
        let qkv = self.product(layer, "attn.qkv", &normed, self.hidden);
        let width = (heads + 2 * kv_heads) * dim;
        // `[rows][tokens][heads][dim]` to `[rows][heads][tokens][dim]`, of the heads in a range.
        let pick = |first: usize, count: usize| -> Vec<f32> {
            let order = (0..rows).flat_map(|row| (0..count).map(move |head| (row, head)));
            let order = order.flat_map(|(r, h)| (0..tokens).map(move |token| (r, h, token)));
            let at = |(row, head, token)| (row * tokens + token) * width + (first + head) * dim;
            order.map(at).flat_map(|at: usize| &qkv[at..at + dim]).copied().collect()
        };
        let rotated = |name: &str, rows: Vec<f32>| {
            let norm = format!("transformer.h.{layer}.attn.{name}.weight");
            let rows = if self.weights.has(&norm) { self.norm(&rows, &norm, dim) } else { rows };
            self.rotate(rows, tokens, position)
        };
        Projected {
            query: rotated("norm_q", pick(0, heads)),
            keys: rotated("norm_k", pick(heads, kv_heads)),
            values: pick(heads + kv_heads, kv_heads),
        }
    }

    /// What a layer adds to `x` after attention gave `[rows][tokens][heads][head_dim]`.
    pub fn finish_layer(&self, layer: usize, x: &mut [f32], attended: &[f32]) {
        add(x, &self.product(layer, "attn.proj", attended, self.heads * self.head_dim));
        let normed = self.norm(x, &format!("transformer.h.{layer}.norm_2.weight"), self.hidden);
        let gate = self.product(layer, "mlp.fc_1", &normed, self.hidden);
        let up = self.product(layer, "mlp.fc_2", &normed, self.hidden);
        let silu = |x: f32| f64::from(x) / (1.0 + (-f64::from(x)).exp());
        let gated: Vec<f32> =
            gate.iter().zip(&up).map(|(gate, up)| (silu(*gate) * f64::from(*up)) as f32).collect();
        let width = self.weights.shape(&format!("transformer.h.{layer}.mlp.fc_1.weight"))[0];
        add(x, &self.product(layer, "mlp.proj", &gated, width));
    }

    /// `[rows][tokens][vocab]`
    pub fn logits(&self, x: &[f32]) -> Vec<f32> {
        let normed = self.norm(x, "transformer.ln_f.weight", self.hidden);
        product(&normed, self.hidden, self.weights.f32("lm_head.weight"), None)
    }

    fn product(&self, layer: usize, name: &str, x: &[f32], dim: usize) -> Vec<f32> {
        let name = format!("transformer.h.{layer}.{name}");
        let bias = format!("{name}.bias");
        let bias = self.weights.has(&bias).then(|| self.weights.f32(&bias));
        product(x, dim, self.weights.f32(&format!("{name}.weight")), bias)
    }

    fn norm(&self, x: &[f32], weight: &str, dim: usize) -> Vec<f32> {
        let weight = self.weights.f32(weight);
        let row = |row: &[f32]| -> Vec<f32> {
            let squares: f64 = row.iter().map(|x| f64::from(*x).powi(2)).sum();
            let scale = 1.0 / (squares / dim as f64 + self.eps).sqrt();
            row.iter().zip(weight).map(|(x, w)| (f64::from(*x) * scale) as f32 * w).collect()
        };
        x.chunks_exact(dim).flat_map(row).collect()
    }

    fn rotate(&self, mut rows: Vec<f32>, tokens: usize, position: usize) -> Vec<f32> {
        for (i, row) in rows.chunks_exact_mut(self.head_dim).enumerate() {
            for (pair, angle) in self.rotation.iter().enumerate() {
                // An f32 product, as the models are trained.
                let angle = angle * (position + i % tokens) as f32;
                let (sin, cos) = f64::from(angle).sin_cos();
                let other = pair + self.rotation.len();
                let (a, b) = (f64::from(row[pair]), f64::from(row[other]));
                row[pair] = (a * cos - b * sin) as f32;
                row[other] = (b * cos + a * sin) as f32;
            }
        }
        rows
    }
}

fn product(x: &[f32], dim: usize, weight: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
    let row = |x: &[f32]| -> Vec<f32> {
        let outputs = weight.chunks_exact(dim).enumerate().map(|(i, weight)| {
            let parts = x.iter().zip(weight).map(|(x, w)| f64::from(*x) * f64::from(*w));
            (parts.sum::<f64>() + bias.map_or(0.0, |bias| f64::from(bias[i]))) as f32
        });
        outputs.collect()
    };
    x.chunks_exact(dim).flat_map(row).collect()
}

fn add(sum: &mut [f32], delta: &[f32]) {
    sum.iter_mut().zip(delta).for_each(|(sum, delta)| *sum += delta);
}
