//! `terrace rank eval` of what `tools/hstu` has trained: the trainer's own metrics.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use terrace_engine::DeviceChoice;
use terrace_engine::rank::{RankConfig, RankRequest, RankSetup, RankSource, UserKey};
use terrace_model::hstu::HstuFiles;
use terrace_model::hstu::recsys_args::{RecsysArgs, UnknownKeys};
use terrace_testkit::Rng;

use crate::evaluated_users::{terrace, text};

#[derive(Deserialize)]
struct Report {
    users: usize,
    metrics: BTreeMap<String, f64>,
}

/// A folder that `tools/golden/hstu_trained.py` wrote.
fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trained").join(name)
}

fn eval(checkpoint: &Path, gin: &Path, data: &Path, options: &[&str]) -> String {
    let files = ["--checkpoint_dir", text(checkpoint), "--gin_config_file", text(gin)];
    let rest = ["--dataset_path", text(data), "--json", "--f32", "--threads", "1"];
    terrace(&[&["rank", "eval"], &files[..], &rest, &["--device", "cpu"], options].concat())
        .expect("it evaluates")
}

/// Metrics within 0.001 of the trainer's, and the same with and without the cache. Equal scores but
/// for their last bits may take turns.
#[track_caller]
fn check(name: &str, gin: &str, data: &Path) {
    let folder = case(name);
    let (checkpoint, gin) = (folder.join("checkpoint"), folder.join(gin));
    let text = fs::read_to_string(folder.join("metrics.json")).expect("the trainer's metrics");
    let want: Report = serde_json::from_str(&text).expect("JSON");
    let found = |options: &[&str]| -> Report {
        serde_json::from_str(&eval(&checkpoint, &gin, data, options)).expect("JSON")
    };
    let cached = found(&[]);
    assert_eq!(cached.users, want.users, "{name}");
    let names = |report: &Report| report.metrics.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&cached), names(&want), "{name}");
    for (metric, wanted) in &want.metrics {
        let value = cached.metrics[metric];
        assert!((value - wanted).abs() < 1e-3, "{name}: {metric} is {value}, trained {wanted}");
    }
    assert_eq!(found(&["--disable_kvcache"]).metrics, cached.metrics, "{name}");
}

#[test]
fn rankings_are_those_of_the_trainer() {
    check("tasks", "checkpoint/config.gin", &case("tasks").join("processed_seqs.csv"));
}

/// Where `terrace preprocess` has put the sequences of the sequential model.
fn preprocessed() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a folder");
    let lines = case("popularity").join("sequences.txt");
    let data = ["--dataset_name", "amazon-beauty", "--sequence_file", text(&lines)];
    terrace(&[&["preprocess", "--dataset_path", text(home.path())], &data[..]].concat())
        .expect("sequences");
    home
}

#[test]
fn last_items_are_found_as_the_trainer_finds_them() {
    check("popularity", "training.gin", preprocessed().path());
}

#[test]
fn hits_may_be_counted_as_recsys_examples_does() {
    let (folder, data) = (case("popularity"), preprocessed());
    let (checkpoint, gin) = (folder.join("checkpoint"), folder.join("training.gin"));
    let metrics = |options: &[&str]| -> BTreeMap<String, f64> {
        let report = eval(&checkpoint, &gin, data.path(), options);
        serde_json::from_str::<Report>(&report).expect("JSON").metrics
    };
    let (standard, theirs) = (metrics(&[]), metrics(&["--compat"]));
    assert!(theirs["HR@5"] < standard["HR@5"], "{theirs:?}, {standard:?}");
    assert_eq!(theirs["NDCG@5"], standard["NDCG@5"]);
}

#[test]
fn a_checkpoint_of_pytorch_and_its_conversion_rank_bit_for_bit() {
    let home = tempfile::tempdir().expect("a folder");
    let (checkpoint, converted) = (case("tasks").join("checkpoint"), home.path().join("model"));
    terrace(&["rank", "convert", text(&checkpoint), text(&converted)]).expect("it is converted");
    let gin = checkpoint.join("config.gin");
    let (args, _) = RecsysArgs::open(&gin, UnknownKeys::Refuse).expect("a gin file");
    let theirs = HstuFiles::open_recsys(&args, &checkpoint).expect("it opens");
    let own = HstuFiles::open(&converted).expect("our folder");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for exact in [true, false] {
        let [own, theirs] = [&own, &theirs].map(|files| {
            let device = DeviceChoice::Cpu;
            let config = RankConfig { f32: exact, device, threads: 1, ..RankConfig::default() };
            let source = RankSource::Files(files);
            let engine = RankSetup { source, config }.start().expect("the model starts");
            let mut rng = Rng::new(23);
            let mut bits = Vec::new();
            for user in 1..20 {
                // Of the items some are in nobody's training data.
                let mut ids = |count: usize, most: usize| -> Vec<i64> {
                    (0..count).map(|_| 1 + rng.below(most) as i64).collect()
                };
                let asked = RankRequest {
                    user: UserKey::new("", &user.to_string()),
                    context: vec![user],
                    items: ids(9, 60),
                    actions: ids(9, 10),
                    candidates: ids(6, 60),
                    start: None,
                    priority: 0,
                    strict: false,
                    timeout_ms: None,
                };
                let logits = runtime.block_on(engine.rank(asked)).expect("it ranks").logits;
                bits.extend(logits.into_iter().map(f32::to_bits));
            }
            bits
        });
        assert_eq!(own.len(), 19 * 6 * 3);
        assert_eq!(own, theirs);
    }
    let data = case("tasks").join("processed_seqs.csv");
    assert_eq!(eval(&converted, &gin, &data, &[]), eval(&checkpoint, &gin, &data, &[]));
}
