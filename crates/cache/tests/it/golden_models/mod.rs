//! Whole models over the reference of a fixed batch, against the original's runs: logits when each
//! chunk passes through all layers in turn, losses and logits when each layer takes several chunks
//! at a time, and what is left in the caches.

mod plain_model;

use terrace_cache::policy::{ChunkSizes, KvCacheSpec, chunk_plan};
use terrace_cache::reference::{BatchCall, BatchShape, FixedBatchCache};
use terrace_testkit::{GoldenKv, counts};

use crate::golden_policies::spec;
use plain_model::PlainModel;

/// Layers and a head come after attention, and angles of long contexts are rounded.
const LOGIT_SLACK: f32 = 1e-4;
const LOSS_SLACK: f32 = 1e-5;
/// Scores this close may be decided otherwise.
const DECISION_SLACK: f64 = 1e-5;

#[test]
fn golden_models_with_bounded_caches() {
    for run in GoldenKv::of_kind("model_run") {
        let weights = GoldenKv::of_file(run.text("weights"));
        let pass = Pass::new(&run, &weights);
        let chunks = run.counts("chunk_sizes");
        if !pass.check_by_chunk(&chunks) {
            println!("golden kv: {} decides otherwise by less than 1e-5", run.name);
            continue;
        }
        for (key, cells) in run.about.as_object().into_iter().flatten() {
            if let Some(multiplier) = key.strip_prefix("chunks_per_cell_mult") {
                let cells = counts(cells).expect("chunks of the cells");
                pass.check_by_cell(&chunks, &cells, multiplier);
            }
        }
        println!("golden kv: {} ok", run.name);
    }
}

struct Pass<'a> {
    run: &'a GoldenKv,
    model: PlainModel<'a>,
    spec: KvCacheSpec,
    shape: BatchShape,
    tokens: usize,
}

impl<'a> Pass<'a> {
    fn new(run: &'a GoldenKv, weights: &'a GoldenKv) -> Self {
        let [rows, tokens] = run.shape("input_ids")[..] else { panic!("rows of ids") };
        let model = PlainModel::new(run, weights, tokens);
        let shape = BatchShape {
            rows,
            heads: model.heads,
            kv_heads: model.kv_heads,
            head_dim: model.head_dim,
            slots: run.count("cache_length"),
            scale: model.attn_scale,
        };
        let sizes = ChunkSizes { tokens: run.count("chunk_size"), random_seed: None };
        let lengths = vec![shape.slots; model.layers];
        assert_eq!(chunk_plan(&lengths, tokens, sizes), run.counts("chunk_sizes"), "{}", run.name);
        let spec = spec(run, model.head_dim, Some("keys_values"));
        Pass { run, model, spec, shape, tokens }
    }

    /// Whether the run decided as the original did; it may not only where scores are close.
    fn check_by_chunk(&self, chunks: &[usize]) -> bool {
        let (logits, caches) = self.run(chunks, &vec![1; chunks.len()]);
        for (layer, cache) in caches.iter().enumerate() {
            let name = format!("final_token_pos.layer{layer}");
            let gap = self.run.about["min_score_gap"].as_f64();
            let want = self.run.i32(&name);
            if cache.positions() != want && gap.is_some_and(|gap| gap < DECISION_SLACK) {
                return false;
            }
            assert_eq!(cache.positions(), want, "{} {name}", self.run.name);
        }
        let got = self.last(&logits, self.run.shape("logits_by_chunk")[1]);
        self.near("logits", &got, self.run.f32("logits_by_chunk"), LOGIT_SLACK);
        true
    }

    fn check_by_cell(&self, chunks: &[usize], cells: &[usize], multiplier: &str) {
        let (logits, _) = self.run(chunks, cells);
        let name = |what: &str| format!("{what}_mult{multiplier}");
        let want = self.run.f32(&name("final_logits"));
        self.near("final logits", &self.last(&logits, 1), want, LOGIT_SLACK);
        let losses = self.losses(&logits);
        let sums: Vec<f32> = losses.iter().map(|(sum, count)| (sum / count) as f32).collect();
        self.near("loss", &sums, self.run.f32(&name("loss_per_case")), LOSS_SLACK);
        let mean = losses.iter().map(|(_, count)| count).sum::<f64>() / losses.len() as f64;
        let shared: Vec<f32> = losses.iter().map(|(sum, _)| (sum / mean) as f32).collect();
        self.near("loss", &shared, self.run.f32(&name("loss_batchavg")), LOSS_SLACK);
    }

    /// Runs the chunks of a cell through a layer, then through the next. Layers share one working
    /// copy: what a layer has written is stored when the next one takes it. Gives logits
    /// `[rows][tokens][vocab]`.
    fn run(&self, chunks: &[usize], cells: &[usize]) -> (Vec<f32>, Vec<FixedBatchCache>) {
        let new = |_| FixedBatchCache::new(&self.spec, self.shape).expect("a cache");
        let mut caches: Vec<FixedBatchCache> = (0..self.model.layers).map(new).collect();
        let mut logits = vec![Vec::new(); self.shape.rows];
        let (mut start, mut next) = (0, 0);
        for cell in cells {
            let cell_chunks = &chunks[next..next + cell];
            let mut xs: Vec<Vec<f32>> = Vec::new();
            let mut at = start;
            for tokens in cell_chunks {
                xs.push(self.model.embed(&self.ids(at, *tokens)));
                at += tokens;
            }
            for (layer, cache) in caches.iter_mut().enumerate() {
                let mut at = start;
                for (x, tokens) in xs.iter_mut().zip(cell_chunks) {
                    self.layer(layer, cache, x, at, *tokens);
                    at += tokens;
                }
                cache.requantise();
            }
            for x in &xs {
                let out = self.model.logits(x);
                let each = out.len() / self.shape.rows;
                logits.iter_mut().zip(out.chunks_exact(each)).for_each(|(l, out)| l.extend(out));
            }
            start = at;
            next += cell;
        }
        (logits.concat(), caches)
    }

    fn layer(
        &self,
        layer: usize,
        cache: &mut FixedBatchCache,
        x: &mut [f32],
        at: usize,
        tokens: usize,
    ) {
        let rows = self.model.project(layer, x, tokens, at);
        let ids: Vec<u32> = self.ids(at, tokens).iter().map(|id| *id as u32).collect();
        let call = BatchCall {
            tokens,
            query: &rows.query,
            keys: &rows.keys,
            values: &rows.values,
            ids: &ids,
            text: None,
        };
        let step = cache.step(&call).expect("a chunk that fits");
        self.model.finish_layer(layer, x, &step.out);
    }

    /// `[rows][tokens]`
    fn ids(&self, start: usize, tokens: usize) -> Vec<i32> {
        let rows = self.run.i32("input_ids").chunks_exact(self.tokens);
        rows.flat_map(|row| &row[start..start + tokens]).copied().collect()
    }

    /// Logits of the last positions of each row.
    fn last(&self, logits: &[f32], positions: usize) -> Vec<f32> {
        let vocab = logits.len() / (self.shape.rows * self.tokens);
        let rows = logits.chunks_exact(self.tokens * vocab);
        rows.flat_map(|row| &row[(self.tokens - positions) * vocab..]).copied().collect()
    }

    /// The sum of each row's cross entropy, and over how many targets.
    fn losses(&self, logits: &[f32]) -> Vec<(f64, f64)> {
        let targets = self.run.i32("targets");
        let each = targets.len() / self.shape.rows;
        let last = self.last(logits, each);
        let vocab = last.len() / targets.len();
        let loss = |(logits, target): (&[f32], &i32)| {
            let target = usize::try_from(*target).ok()?;
            let total: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
            Some(total.ln() - f64::from(logits[target]))
        };
        let losses: Vec<Option<f64>> = last.chunks_exact(vocab).zip(targets).map(loss).collect();
        let of_row = |row: &[Option<f64>]| {
            let counted = row.iter().flatten();
            (counted.clone().sum(), counted.count() as f64)
        };
        losses.chunks_exact(each).map(of_row).collect()
    }

    #[track_caller]
    fn near(&self, what: &str, got: &[f32], want: &[f32], slack: f32) {
        assert_eq!(got.len(), want.len(), "{} {what}: how many", self.run.name);
        let far = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far <= slack, "{} {what}: {far} away", self.run.name);
    }
}
