//! The fuzzers' targets on stable Rust: every input of the corpus, and damaged copies of them.

use std::fs;
use std::path::Path;

use terrace_fuzz_targets::{TARGETS, Target, mutated, quiet_foreign_panics};
use terrace_testkit::Rng;

const SEED: u64 = 20_260_822;
/// Damaged inputs for each target.
const DAMAGED: u64 = 2000;

#[test]
fn gguf() {
    check("gguf");
}

#[test]
fn safetensors() {
    check("safetensors");
}

#[test]
fn adapter() {
    check("adapter");
}

#[test]
fn tokenizer() {
    check("tokenizer");
}

#[test]
fn chat_template() {
    check("chat_template");
}

#[test]
fn http() {
    check("http");
}

#[test]
fn handle() {
    check("handle");
}

#[test]
fn ps_json() {
    check("ps_json");
}

#[test]
fn sparse_table() {
    check("sparse_table");
}

#[test]
fn update_message() {
    check("update_message");
}

#[test]
fn dense_message() {
    check("dense_message");
}

#[test]
fn ctr_network() {
    check("ctr_network");
}

#[test]
fn infer_body() {
    check("infer_body");
}

#[test]
fn infer_message() {
    check("infer_message");
}

#[test]
fn model_config() {
    check("model_config");
}

#[test]
fn torch_file() {
    check("torch_file");
}

#[test]
fn gin() {
    check("gin");
}

/// Inputs named `good-…` must be accepted; of the others it is enough that they end.
fn check(name: &str) {
    quiet_foreign_panics();
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target");
    let corpus = corpus(name);
    for (file, input) in &corpus {
        println!("{name}: {file}");
        let accepted = (target.run)(input);
        assert!(accepted || !file.starts_with("good-"), "{name}: {file} was refused");
    }
    assert!(corpus.iter().any(|(file, _)| file.starts_with("good-")), "{name} has no good input");
    run_damaged(target, &corpus);
}

fn run_damaged(target: &Target, corpus: &[(String, Vec<u8>)]) {
    for seed in SEED..SEED + DAMAGED {
        let mut rng = Rng::new(seed);
        let (_, input) = rng.pick(corpus);
        let input = mutated(input, &mut rng);
        // An error is as good as a success here; only a panic is not.
        (target.run)(&input);
    }
}

fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = fs::read_dir(&folder).expect("a corpus for each target");
    let mut inputs: Vec<_> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .map(|path| {
            let file = path.file_name().expect("a file").to_string_lossy().into_owned();
            (file, fs::read(&path).expect("a readable file"))
        })
        .collect();
    inputs.sort();
    inputs
}
