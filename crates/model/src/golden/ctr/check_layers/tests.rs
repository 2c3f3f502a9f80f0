//! Every case of `testdata/ctr_layers`, and that every layer has one.

use std::collections::BTreeSet;

use terrace_kernels::{Compute, CpuLevel, CpuOptions};
use terrace_testkit::golden_set;

use super::*;
use crate::ctr::CtrLayerKinds;

/// What products of bf16 may be from double precision.
const BF16_TOLERANCE: f32 = 0.05;

fn cases() -> Vec<LayerCase> {
    let path = golden_set("ctr_layers");
    let folder = GoldenFolder::open(&path).expect("a manifest");
    let of = |kind| LayerCase::all(&path, &folder, kind).expect("good cases");
    [of("layer"), of("network")].into_iter().flatten().collect()
}

fn ops(level: Option<CpuLevel>, compute: Compute) -> Ops {
    Ops::cpu(CpuOptions { threads: 2, level, compute }).expect("the level is available")
}

fn place(ops: &Ops, case: &LayerCase) -> CtrModel {
    let weights = case.named_weights().expect("its weights");
    CtrModel::place(ops, &case.network, &weights).expect("weights that fit")
}

fn run_all(case: &LayerCase, ops: &Ops, model: &CtrModel) -> Vec<f32> {
    case.run(ops, model, 0..case.samples().expect("a result")).expect("its inputs")
}

/// The largest difference from the result that is wanted.
fn error(case: &LayerCase, found: &[f32]) -> f32 {
    let mut findings = SetFindings::new("one", TOLERANCE);
    findings.compare(found, case.wanted().expect("a result"), || case.name.clone());
    assert!(findings.wrong.is_empty(), "{findings}");
    findings.largest.value
}

/// Inputs of products as they are, and as tensor cores want them.
#[test]
fn layers_compute_what_pytorch_does_at_every_level() {
    let cases = cases();
    for level in CpuLevel::available() {
        let ops = ops(Some(level), Compute::F32);
        let mut worst = (0.0, "");
        for case in &cases {
            for multiple in [1, 8] {
                let weights = case.named_weights().expect("its weights");
                let model = CtrModel::place_with(&ops, &case.network, &weights, multiple);
                let found = run_all(case, &ops, &model.expect("weights that fit"));
                let error = error(case, &found);
                assert!(error <= TOLERANCE, "{}, {multiple}: {error}", case.name);
                worst = if worst.0 < error { (error, &case.name) } else { worst };
            }
        }
        println!("{}: {worst:?}", level.name());
    }
}

#[test]
fn every_layer_that_is_known_has_a_case() {
    let manifest = GoldenFolder::open(&golden_set("ctr_layers")).expect("a manifest");
    let layers = manifest.entries().flat_map(|(_, about)| about["layers"].as_array());
    let has: BTreeSet<&str> = layers.flatten().filter_map(|layer| layer["type"].as_str()).collect();
    let kinds = CtrLayerKinds::hugectr();
    let losses = ["BinaryCrossEntropyLoss", "CrossEntropyLoss", "MultiCrossEntropyLoss"];
    let missing: Vec<&str> = kinds.names().chain(losses).filter(|it| !has.contains(it)).collect();
    assert!(missing.is_empty(), "no case has {missing:?}");
}

#[test]
fn a_sample_gives_the_same_alone_unless_the_network_says_otherwise() {
    let ops = ops(None, Compute::F32);
    let mut mixing = Vec::new();
    for case in cases() {
        let model = place(&ops, &case);
        if model.mixes_samples() {
            mixing.push(case.name);
            continue;
        }
        let all = run_all(&case, &ops, &model);
        let samples = 0..case.samples().expect("a result");
        let alone = samples.flat_map(|at| case.run(&ops, &model, at..at + 1).expect("its inputs"));
        assert_eq!(alone.collect::<Vec<_>>(), all, "{}", case.name);
    }
    assert_eq!(mixing, ["dice", "dice_of_rows", "net_bst_concat", "net_bst_mean", "net_din"]);
}

#[test]
fn products_of_bf16_stay_near() {
    let ops = ops(None, Compute::Fast);
    for case in cases() {
        let error = error(&case, &run_all(&case, &ops, &place(&ops, &case)));
        assert!(error <= BF16_TOLERANCE, "{}: {error}", case.name);
    }
}

#[test]
fn no_samples_give_nothing() {
    let ops = ops(None, Compute::F32);
    for case in cases() {
        assert!(case.run(&ops, &place(&ops, &case), 0..0).expect("no inputs").is_empty());
    }
}
