//! Retrieval over golden models, from their weights as a folder to the items that are found.

use std::path::Path;

use serde_json::{Value, json};
use terrace_engine::DeviceChoice;
use terrace_engine::rank::{
    RankConfig, RankHandle, RankRequest, RankSetup, RankSource, RetrieveRequest, UserKey,
};
use terrace_golden::{GoldenFolder, GoldenTensors};
use terrace_model::hstu::HstuFiles;
use terrace_testkit::{SafetensorsFile, golden_set};

use crate::ranking::runtime;

struct Case {
    params: Value,
    tensors: GoldenTensors,
}

fn cases(prefix: &str) -> Vec<Case> {
    let folder = GoldenFolder::open(&golden_set("hstu")).expect("golden data");
    let listed = folder.entries().find(|(name, _)| *name == "cases").expect("cases").1.clone();
    let cases = listed.as_array().expect("a list").iter();
    let cases = cases.filter(|case| case["name"].as_str().expect("named").starts_with(prefix));
    let open = |case: &Value| Case {
        params: case["params"].clone(),
        tensors: folder.tensors(case["file"].as_str().expect("a file")).expect("tensors"),
    };
    let cases: Vec<Case> = cases.map(open).collect();
    assert!(!cases.is_empty(), "no cases {prefix}");
    cases
}

impl Case {
    fn count(&self, param: &str) -> usize {
        self.params[param].as_u64().expect("a count") as usize
    }

    fn f32s(&self, name: &str) -> &[f32] {
        self.tensors.f32s(name).expect("numbers")
    }

    fn i64s(&self, name: &str) -> &[i64] {
        self.tensors.i64s(name).expect("integers")
    }

    /// Copies a tensor under the name that Terrace has for it.
    fn copy(&self, file: &mut SafetensorsFile, to: &str, from: &str) {
        file.numbers(to, self.tensors.shape(from).expect("a shape"), self.f32s(from));
    }

    fn copy_transposed(&self, file: &mut SafetensorsFile, to: &str, from: &str) {
        let [rows, columns] = self.tensors.dims::<2>(from).expect("a matrix");
        let numbers = self.f32s(from);
        let across: Vec<f32> =
            (0..rows * columns).map(|at| numbers[at % rows * columns + at / rows]).collect();
        file.numbers(to, &[columns, rows], &across);
    }
}

fn engine(folder: &Path, config: &Value, file: SafetensorsFile) -> RankHandle {
    std::fs::write(folder.join("config.json"), config.to_string()).expect("writable");
    std::fs::write(folder.join("model.safetensors"), file.bytes()).expect("writable");
    let files = HstuFiles::open(folder).expect("the golden model opens");
    let config = RankConfig {
        f32: true,
        device: DeviceChoice::Cpu,
        page_tokens: 4,
        kv_bytes: Some(1 << 20),
        threads: 2,
        ..RankConfig::default()
    };
    RankSetup { source: RankSource::Files(&files), config }.start().expect("it starts")
}

fn history(user: usize, context: Vec<i64>, items: &[i64], actions: &[i64]) -> RankRequest {
    RankRequest {
        user: UserKey::new("", &user.to_string()),
        context,
        items: items.to_vec(),
        actions: actions.to_vec(),
        candidates: Vec::new(),
        start: None,
        priority: 0,
        strict: true,
        timeout_ms: None,
    }
}

fn close(got: f32, want: f32) -> bool {
    (got - want).abs() <= 2e-5 * want.abs().max(1.0)
}

/// The model with biases by time: scores of all items, and the first five.
#[test]
fn sequential_models_find_the_golden_items() {
    for case in cases("seq_meta") {
        let folder = tempfile::tempdir().expect("a folder");
        let (n, most) = (case.count("N"), case.count("max_seq_len"));
        let config = json!({
            "model_type": "hstu", "task": "retrieval", "variant": "sequential",
            "num_layers": case.count("blocks"), "hidden_size": case.count("dim"),
            "num_attention_heads": case.count("heads"), "head_dim": case.count("dqk"),
            "value_dim": case.count("dv"), "scaling_seqlen": n, "max_history_tokens": most,
            "max_candidates": case.count("num_items"), "item_feature": "item",
            "norm_eps": case.params["eps"], "concat_ua": case.params["concat_ua"],
        });
        let mut file = SafetensorsFile::default();
        case.copy(&mut file, "embeddings.item.weight", "_embedding_module._item_emb.weight");
        case.copy(&mut file, "positions.weight", "_input_features_preproc._pos_emb.weight");
        for layer in 0..case.count("blocks") {
            let from = |part: &str| format!("_hstu._attention_layers.{layer}.{part}");
            let to = |part: &str| format!("layers.{layer}.{part}");
            case.copy_transposed(&mut file, &to("uvqk.weight"), &from("_uvqk"));
            case.copy(&mut file, &to("output.weight"), &from("_o.weight"));
            case.copy(&mut file, &to("output.bias"), &from("_o.bias"));
            case.copy(&mut file, &to("position_bias"), &from("_rel_attn_bias._pos_w"));
            case.copy(&mut file, &to("time_bias"), &from("_rel_attn_bias._ts_w"));
        }
        let engine = engine(folder.path(), &config, file);
        let (ids, times) = (case.i64s("ids"), case.i64s("timestamps"));
        let num_items = case.count("num_items");
        for (user, length) in case.i64s("lengths").iter().enumerate() {
            let length = *length as usize;
            let request = |length: usize| RetrieveRequest {
                history: history(user, Vec::new(), &ids[user * n..][..length], &[]),
                count: num_items,
                blocked: Vec::new(),
                keeps_seen: true,
                times: times[user * n..][..length].to_vec(),
                time: Some(times[user * n + length.min(n - 1)]),
            };
            // First less of the history, so that the second time some of it is cached.
            if 1 < length {
                runtime().block_on(engine.retrieve(request(length - 1))).expect("retrieves");
            }
            let got = runtime().block_on(engine.retrieve(request(length))).expect("retrieves");
            assert_eq!(got.output.cached_tokens, length.saturating_sub(2), "of {length}");
            let top: Vec<i64> = got.items.iter().take(5).map(|it| it.item).collect();
            assert_eq!(top, case.i64s("top5_ids")[user * 5..][..5], "user {user}");
            let scores = &case.f32s("scores")[user * num_items..][..num_items];
            assert_eq!(got.items.len(), num_items, "all but the padding");
            for found in &got.items {
                let want = scores[found.item as usize - 1];
                assert!(close(found.score, want), "item {}: {} {want}", found.item, found.score);
            }
        }
    }
}

/// A candidate is what a retrieval model makes its query of, so that the golden rows of candidates
/// are those of queries.
#[test]
fn queries_are_the_golden_rows_of_the_last_item() {
    for case in cases("ranking_nv") {
        let folder = tempfile::tempdir().expect("a folder");
        let features = case.params["contextual_features"].as_array().expect("a list");
        let hidden = case.count("hidden");
        let [items, _] = case.tensors.dims::<2>("emb.item").expect("a table");
        let config = json!({
            "model_type": "hstu", "task": "retrieval", "variant": "nvidia",
            "num_layers": case.count("layers"), "hidden_size": hidden,
            "num_attention_heads": case.count("heads"), "head_dim": case.count("head_dim"),
            "scaling_seqlen": case.count("scaling_seqlen"), "max_history_tokens": 60,
            "max_candidates": items, "contextual_features": features, "item_feature": "item",
            "action_feature": "action", "norm_eps": case.params["eps"],
        });
        let mut file = SafetensorsFile::default();
        let names = features.iter().map(|name| name.as_str().expect("a name"));
        for name in names.chain(["item", "action"]) {
            let (to, from) = (format!("embeddings.{name}.weight"), format!("emb.{name}"));
            case.copy(&mut file, &to, &from);
        }
        case.copy(&mut file, "positions.weight", "pos_emb");
        for layer in 0..case.count("layers") {
            for (to, from) in [
                ("input_norm.weight", "input_norm_weight"),
                ("input_norm.bias", "input_norm_bias"),
                ("uvqk.weight", "uvqk_weight"),
                ("uvqk.bias", "uvqk_bias"),
                ("output_norm.weight", "output_norm_weight"),
                ("output_norm.bias", "output_norm_bias"),
                ("output.weight", "proj_weight"),
            ] {
                let (to, from) = (format!("layers.{layer}.{to}"), format!("layer{layer}.{from}"));
                case.copy(&mut file, &to, &from);
            }
        }
        let engine = engine(folder.path(), &config, file);
        check_queries(&case, &engine, features.len());
    }
}

/// Every candidate of every user, as the last item of a history.
fn check_queries(case: &Case, engine: &RankHandle, context: usize) {
    let (batch, hidden) = (case.count("batch"), case.count("hidden"));
    let (values, lengths) = (case.i64s("in.values"), case.i64s("in.lengths"));
    let of = |feature: usize, user: usize| {
        let at = feature * batch + user;
        let start: i64 = lengths[..at].iter().sum();
        values[start as usize..][..lengths[at] as usize].to_vec()
    };
    let (queries, table) = (case.f32s("normed_candidates"), case.f32s("emb.item"));
    let mut query = 0;
    for (user, candidates) in case.i64s("in.num_candidates").iter().enumerate() {
        let (items, actions) = (of(context, user), of(context + 1, user));
        let before = items.len() - *candidates as usize;
        for candidate in &items[before..] {
            let mut seen = items[..before].to_vec();
            seen.push(*candidate);
            let mut done = actions[..before].to_vec();
            done.push(0);
            let context = (0..context).map(|feature| of(feature, user)[0]).collect();
            let request = RetrieveRequest {
                history: history(user, context, &seen, &done),
                count: table.len() / hidden,
                blocked: Vec::new(),
                keeps_seen: true,
                times: Vec::new(),
                time: None,
            };
            let got = runtime().block_on(engine.retrieve(request)).expect("retrieves");
            let row = &queries[query * hidden..(query + 1) * hidden];
            assert_eq!(got.items.len(), table.len() / hidden);
            for found in &got.items {
                let item = &table[found.item as usize * hidden..][..hidden];
                let want: f32 = row.iter().zip(item).map(|(a, b)| a * b).sum();
                assert!(close(found.score, want), "item {}: {} {want}", found.item, found.score);
            }
            assert!(got.items.is_sorted_by(|a, b| a.score >= b.score), "the best first");
            query += 1;
        }
    }
    assert_eq!(query * hidden, queries.len(), "every candidate was a query");
}
