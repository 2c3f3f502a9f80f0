//! Real tiers under a real model: outputs are the same whatever is kept where, through restarts.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use terrace_engine::text::GenerationConfig;
use terrace_engine::{
    DiskLevel, EngineStats, Generated, InferenceConfig, InferenceEngine, KvTiers,
};
use terrace_testkit::Rng;

use crate::tiny_model::{config, tiny};

/// Of five stems in turn: each begins as the fifth before it, and the device holds little more than
/// one of them.
fn prompts() -> Vec<String> {
    let stem = |stem: usize, own: usize| format!("{}{own}", format!("stem {stem} ").repeat(26));
    (0..15).map(|prompt| stem(prompt % 5, prompt)).collect()
}

/// Pages of four tokens, few of which the device holds.
fn small(tiers: KvTiers) -> InferenceConfig {
    InferenceConfig {
        block_size: 4,
        max_batch_size: 2,
        kv_memory_bytes: Some(400 << 10),
        kv_tiers: tiers,
        ..config()
    }
}

fn disk(folder: &Path) -> KvTiers {
    let disk = Some(DiskLevel { folder: folder.into(), bytes: 64 << 20 });
    KvTiers { disk, wait_ms: Some(10_000), ..KvTiers::default() }
}

/// The outputs, and what the engine has done for them and for its end.
fn run(config: &InferenceConfig) -> (Vec<Generated>, EngineStats) {
    let mut engine = InferenceEngine::new(tiny(), config).expect("an engine");
    let new = GenerationConfig {
        max_new_tokens: Some(6),
        ignore_eos: Some(true),
        ..GenerationConfig::default()
    };
    let mut outputs = Vec::new();
    for prompt in prompts() {
        outputs.extend(engine.generate(prompt, &new).expect("an output"));
    }
    engine.flush();
    let stats = engine.stats();
    (outputs.into_iter().map(|it| Generated { request_id: outputs_id(), ..it }).collect(), stats)
}

/// Requests are numbered by their engine; here it does not matter.
fn outputs_id() -> terrace_engine::RequestId {
    terrace_engine::RequestId(0)
}

#[test]
fn outputs_are_the_same_from_a_disk_after_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    let (expected, _) = run(&small(KvTiers::default()));
    for restart in 0..3 {
        for write_through in [false, true] {
            let tiers = KvTiers { write_through, ..disk(folder.path()) };
            let (found, stats) = run(&small(tiers));
            assert_eq!(found, expected, "restart {restart}");
            let is_warm = 0 < restart || write_through;
            assert!(0 < stats.tier_pages_read || !is_warm, "{stats:?}");
        }
    }
}

#[test]
fn a_damaged_disk_changes_no_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let (expected, _) = run(&small(disk(folder.path())));
    let mut rng = Rng::new(5);
    for _ in 0..4 {
        for entry in std::fs::read_dir(folder.path()).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                continue;
            }
            let mut file = std::fs::OpenOptions::new().write(true).open(&path).expect("a file");
            let bytes = file.metadata().expect("a file").len() as usize;
            for _ in 0..bytes / 4096 {
                file.seek(SeekFrom::Start(rng.below(bytes) as u64)).expect("inside");
                file.write_all(&[rng.below(256) as u8]).expect("a byte");
            }
        }
        let (found, _) = run(&small(disk(folder.path())));
        assert_eq!(found, expected);
    }
}

#[test]
fn host_memory_keeps_what_leaves_the_device() {
    let (expected, before) = run(&small(KvTiers::default()));
    assert_eq!((before.pages_demoted, before.pages_promoted), (0, 0));
    let tiers = KvTiers { host_bytes: Some(4 << 20), ..KvTiers::default() };
    let (found, stats) = run(&small(tiers));
    assert_eq!(found, expected);
    assert!(0 < stats.pages_promoted, "{stats:?}");
    assert!(before.prefix_tokens_hit < stats.prefix_tokens_hit, "{before:?} {stats:?}");
}
