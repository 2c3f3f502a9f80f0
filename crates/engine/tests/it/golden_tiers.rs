//! Golden models over levels of memory: the greedy ids of the original implementations, with a
//! device that holds little more than one sequence, and host memory and a disk below it; cold,
//! warm, and in the next engine.

use std::path::Path;

use terrace_engine::{
    DiskLevel, EngineSetup, EngineStats, InferenceConfig, KvTiers, Precision, WeightSource,
};
use terrace_model::WeightsHash;
use terrace_model::golden::{GoldenModel, GoldenPrompt};

use crate::golden_engine::{Run, dense_groups, serve};

const PAGE_TOKENS: usize = 4;

#[test]
fn golden_llm_over_host_memory_and_a_disk() {
    let (mut promoted, mut read) = (0, 0);
    for (name, folder) in terrace_testkit::golden_cases("llm") {
        let case = match GoldenModel::open(&folder, &folder.join("config.json")) {
            Ok(case) => case,
            Err(terrace_model::Error::Unsupported(what)) => {
                println!("golden llm: {name} skipped, its family is not built yet: {what}");
                continue;
            }
            Err(error) => panic!("{name}: {error}"),
        };
        let folder = tempfile::tempdir().expect("a folder");
        for engine in ["the first engine", "the next engine"] {
            let stats = engine_agrees(&format!("{name}, {engine}"), &case, folder.path());
            promoted += stats.pages_promoted;
            read += stats.tier_pages_read;
            println!("golden llm: {name} ok over tiers in {engine}");
        }
    }
    assert!(0 < promoted && 0 < read, "{promoted} pages came back, {read} of them from disks");
}

/// Serves every prompt twice, one after the other, and leaves what it knows on the disk.
fn engine_agrees(place: &str, case: &GoldenModel, folder: &Path) -> EngineStats {
    let config = config(case, folder);
    let (tensors, hash) = (case.tensors.clone(), WeightsHash::of_tensors(&case.tensors).into());
    let weights = WeightSource::Files { tensors, hash };
    let setup = EngineSetup::new(case.spec.clone(), weights, &config, || {});
    let mut engine = setup.expect("a sound configuration").engine;
    for round in 0..2 {
        for (index, prompt) in case.prompts.iter().enumerate() {
            let mut runs = [Run::new(prompt)];
            serve(&mut engine, &mut runs, None);
            runs[0].agree(&format!("{place}, round {round}, prompt {index}"));
        }
    }
    engine.flush();
    engine.check();
    let stats = engine.stats();
    assert_eq!(stats.pages_free, stats.pages_total, "{place}: pages are held");
    assert_eq!(stats.store_pages_free, stats.store_pages_total, "{place}: pages are held");
    stats
}

fn config(case: &GoldenModel, folder: &Path) -> InferenceConfig {
    let longest = case.prompts.iter().map(GoldenPrompt::tokens).max().expect("a prompt");
    let groups = dense_groups(&case.spec, PAGE_TOKENS);
    let pages: usize = groups.iter().map(|group| group.pages_for(longest)).sum();
    let page_bytes = groups.iter().map(|group| group.layout.page_bytes()).max().expect("a group");
    let tiers = KvTiers {
        host_bytes: Some(pages / 2 * page_bytes),
        disk: Some(DiskLevel { folder: folder.into(), bytes: 64 << 20 }),
        wait_ms: Some(10_000),
        ..KvTiers::default()
    };
    InferenceConfig {
        dtype: Precision::Fp32,
        threads: Some(2),
        block_size: PAGE_TOKENS,
        max_batch_size: 2,
        max_input_len: longest,
        max_output_len: longest,
        kv_memory_bytes: Some((pages + 2) * page_bytes),
        kv_tiers: tiers,
        ..InferenceConfig::default()
    }
}
