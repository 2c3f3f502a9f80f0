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

    fn of_task(seed: u64, task: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ranker = TinyRanker { folder };
        ranker.write([seed, seed], task);
        ranker
    }

    /// Another checkpoint in its folder: weights of tables and of all else from a seed each.
    pub fn replace(&self, tables: u64, layers: u64) {
        self.write([tables, layers], "ranking");
    }

    fn write(&self, [tables, layers]: [u64; 2], task: &str) {
        let folder = &self.folder;
        let config = json!({
            "model_type": "hstu", "task": task, "variant": "nvidia",
            "num_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": HEADS,
            "head_dim": HEAD_DIM, "scaling_seqlen": 250,
            "max_history_tokens": Self::MAX_HISTORY_TOKENS,
            "max_candidates": Self::MAX_CANDIDATES,
            "contextual_features": ["age", "city"], "item_feature": "item",
            "action_feature": "action", "num_tasks": Self::TASKS,
        });
        let text = serde_json::to_string_pretty(&config).expect("plain JSON");
        std::fs::write(folder.path().join("config.json"), text).expect("writable");
        let mut file = SafetensorsFile::default();
        let mut rng = Rng::new(tables);
        for (name, rows) in [("age", 5), ("city", 7), ("item", ITEMS), ("action", Self::ACTIONS)] {
            file.random(&mut rng, &format!("embeddings.{name}.weight"), &[rows, HIDDEN], 0.3);
        }
        let keys: Vec<i64> = (0..ITEMS as i64).rev().map(|item| Self::FIRST_ITEM + item).collect();
        file.integers("embeddings.item.keys", &keys);
        let mut rng = Rng::new(layers ^ 0x5eed);
        file.random(&mut rng, "positions.weight", &[100, HIDDEN], 0.5);
        let width = HEADS * HEAD_DIM;
        for layer in 0..LAYERS {
            let name = |part: &str| format!("layers.{layer}.{part}");
            for (norm, dim) in [("input_norm", HIDDEN), ("output_norm", width)] {
                file.random(&mut rng, &name(&format!("{norm}.weight")), &[dim], 1.0);
                file.random(&mut rng, &name(&format!("{norm}.bias")), &[dim], 0.2);
            }
            file.random(&mut rng, &name("uvqk.weight"), &[4 * width, HIDDEN], 0.5);
            file.random(&mut rng, &name("uvqk.bias"), &[4 * width], 0.2);
            file.random(&mut rng, &name("output.weight"), &[HIDDEN, width], 0.5);
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
