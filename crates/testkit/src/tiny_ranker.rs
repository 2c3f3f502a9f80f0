//! A ranking model of a few kilobytes with random weights.

use std::path::PathBuf;

use serde_json::json;

use crate::rng::Rng;
use crate::safetensors_file::SafetensorsFile;

/// A folder as Terrace lays an HSTU ranking model out: two layers, two heads of 16, context of two
/// features with 5 and 7 ids, items with ids 1000 to 1059, actions with 9.
pub struct TinyRanker {
    folder: tempfile::TempDir,
}

const HIDDEN: usize = 32;
const HEADS: usize = 2;
const HEAD_DIM: usize = 16;
const LAYERS: usize = 2;
const ITEMS: usize = 60;

impl TinyRanker {
    /// The first item's id; they go on from there.
    pub const FIRST_ITEM: i64 = 1000;
    pub const ITEMS: usize = ITEMS;
    pub const ACTIONS: usize = 9;
    pub const TASKS: usize = 3;
    pub const MAX_HISTORY_TOKENS: usize = 202;
    pub const MAX_CANDIDATES: usize = 50;

    pub fn new(seed: u64) -> Self {
        Self::of_task(seed, "ranking")
    }

    /// The same layers and tables without a head: it finds items.
    pub fn retrieval(seed: u64) -> Self {
        Self::of_task(seed, "retrieval")
    }

    /// As [`new`](Self::new) with STU layers, whose norms are of each head.
    pub fn stu(seed: u64) -> Self {
        let ranker = TinyRanker { folder: tempfile::tempdir().expect("a temporary folder") };
        ranker.write_rest(tables(seed), seed, "ranking", RestOf { is_stu: true, widths: None });
        ranker
    }

    fn of_task(seed: u64, task: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ranker = TinyRanker { folder };
        ranker.write([seed, seed], task);
        ranker
    }

    /// A model whose rows of context and items are narrower and go through mlps, and one without
    /// mlps whose rows are what these give: both rank alike.
    pub fn with_mlps(seed: u64) -> [Self; 2] {
        let folder = || TinyRanker { folder: tempfile::tempdir().expect("a temporary folder") };
        let (narrow, plain) = (folder(), folder());
        let mut rng = Rng::new(seed);
        let (mut narrow_file, mut plain_file) =
            (SafetensorsFile::default(), SafetensorsFile::default());
        for (mlp, dim, tables) in [
            ("contextual_mlp", 7, [("age", 5), ("city", 7)]),
            ("item_mlp", 12, [("item", ITEMS), ("action", Self::ACTIONS)]),
        ] {
            let layers = [(20, dim), (HIDDEN, 20)].map(|(outputs, inputs)| {
                [outputs * inputs, outputs].map(|count| random_numbers(&mut rng, count, 0.5))
            });
            for (layer, [weight, bias]) in layers.iter().enumerate() {
                let inputs = weight.len() / bias.len();
                let name = |part: &str| format!("{mlp}.{layer}.{part}");
                narrow_file.numbers(&name("weight"), &[bias.len(), inputs], weight);
                narrow_file.numbers(&name("bias"), &[bias.len()], bias);
            }
            for (name, rows) in tables {
                let numbers = random_numbers(&mut rng, rows * dim, 1.0);
                let name = format!("embeddings.{name}.weight");
                narrow_file.numbers(&name, &[rows, dim], &numbers);
                let wide = numbers.chunks_exact(dim).flat_map(|row| {
                    let hidden = linear(row, &layers[0]).into_iter().map(|x| x.max(0.0));
                    linear(&hidden.collect::<Vec<_>>(), &layers[1])
                });
                plain_file.numbers(&name, &[rows, HIDDEN], &wide.collect::<Vec<_>>());
            }
        }
        let widths = Some([7, 12]);
        narrow.write_rest(narrow_file, seed, "ranking", RestOf { is_stu: false, widths });
        plain.write_rest(plain_file, seed, "ranking", RestOf::default());
        [narrow, plain]
    }

    /// Another checkpoint in its folder: weights of tables and of all else from a seed each.
    pub fn replace(&self, tables: u64, layers: u64) {
        self.write([tables, layers], "ranking");
    }

    fn write(&self, [tables_seed, layers]: [u64; 2], task: &str) {
        self.write_rest(tables(tables_seed), layers, task, RestOf::default());
    }

    /// All but the rows of tables.
    fn write_rest(&self, mut file: SafetensorsFile, layers: u64, task: &str, rest: RestOf) {
        let folder = &self.folder;
        let mut config = json!({
            "model_type": "hstu", "task": task, "variant": "nvidia",
            "num_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": HEADS,
            "head_dim": HEAD_DIM, "scaling_seqlen": 250,
            "max_history_tokens": Self::MAX_HISTORY_TOKENS,
            "max_candidates": Self::MAX_CANDIDATES,
            "contextual_features": ["age", "city"], "item_feature": "item",
            "action_feature": "action", "num_tasks": Self::TASKS,
        });
        if rest.is_stu {
            config["variant"] = json!("stu");
            config["group_norm"] = json!(true);
        }
        if let Some([context, items]) = rest.widths {
            config["contextual_embedding_dim"] = json!(context);
            config["item_embedding_dim"] = json!(items);
        }
        let text = serde_json::to_string_pretty(&config).expect("plain JSON");
        std::fs::write(folder.path().join("config.json"), text).expect("writable");
        let keys: Vec<i64> = (0..ITEMS as i64).rev().map(|item| Self::FIRST_ITEM + item).collect();
        file.integers("embeddings.item.keys", &keys);
        let mut rng = Rng::new(layers ^ 0x5eed);
        file.random(&mut rng, "positions.weight", &[100, HIDDEN], 0.5);
        let width = HEADS * HEAD_DIM;
        for layer in 0..LAYERS {
            let name = |part: &str| format!("layers.{layer}.{part}");
            let (norms, gated) = if rest.is_stu { (HEADS, 3 * width) } else { (width, width) };
            for (norm, dim) in [("input_norm", HIDDEN), ("output_norm", norms)] {
                file.random(&mut rng, &name(&format!("{norm}.weight")), &[dim], 1.0);
                file.random(&mut rng, &name(&format!("{norm}.bias")), &[dim], 0.2);
            }
            file.random(&mut rng, &name("uvqk.weight"), &[4 * width, HIDDEN], 0.5);
            file.random(&mut rng, &name("uvqk.bias"), &[4 * width], 0.2);
            file.random(&mut rng, &name("output.weight"), &[HIDDEN, gated], 0.5);
        }
        file.random(&mut rng, "head.0.weight", &[24, HIDDEN], 0.5);
        file.random(&mut rng, "head.0.bias", &[24], 0.5);
        file.random(&mut rng, "head.1.weight", &[Self::TASKS, 24], 0.5);
        file.random(&mut rng, "head.1.bias", &[Self::TASKS], 0.5);
        let path = folder.path().join("model.safetensors");
        // Whoever has mapped the file before keeps its bytes.
        let beside = path.with_extension("new");
        std::fs::write(&beside, file.bytes()).expect("writable");
        std::fs::rename(beside, path).expect("renamed");
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().into()
    }
}

/// What is not of every model.
#[derive(Clone, Copy, Default)]
struct RestOf {
    is_stu: bool,
    /// Of the rows of context and items, where they are others.
    widths: Option<[usize; 2]>,
}

/// Rows that are as wide as the model.
fn tables(seed: u64) -> SafetensorsFile {
    let mut file = SafetensorsFile::default();
    let mut rng = Rng::new(seed);
    let tables = [("age", 5), ("city", 7), ("item", ITEMS), ("action", TinyRanker::ACTIONS)];
    for (name, rows) in tables {
        file.random(&mut rng, &format!("embeddings.{name}.weight"), &[rows, HIDDEN], 0.3);
    }
    file
}

fn random_numbers(rng: &mut Rng, count: usize, scale: f32) -> Vec<f32> {
    (0..count).map(|_| (rng.below(2001) as f32 / 1000.0 - 1.0) * scale).collect()
}

/// Outputs of a product with a bias.
fn linear(x: &[f32], [weight, bias]: &[Vec<f32>; 2]) -> Vec<f32> {
    let rows = weight.chunks_exact(x.len()).zip(bias);
    rows.map(|(row, bias)| row.iter().zip(x).map(|(a, b)| a * b).sum::<f32>() + bias).collect()
}
