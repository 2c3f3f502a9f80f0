//! Pages of a model with one adapter are not those of it with another, or with none.

use std::path::Path;

use terrace_engine::text::GenerationConfig;
use terrace_engine::{DiskLevel, InferenceConfig, InferenceEngine, KvTiers, TokenId};
use terrace_model::Adapter;
use terrace_testkit::golden_set;

use crate::tiny_model::{config, tiny};

/// Continues a text with pages on a disk below `folder`: the output, and how many pages came from
/// there.
fn run(adapter: Option<&str>, folder: &Path) -> (Vec<TokenId>, u64) {
    let mut model = tiny();
    if let Some(name) = adapter {
        let adapter = Adapter::open(&golden_set("adapters").join(name), &model.spec);
        model = model.with_adapter(adapter.expect("a good adapter")).expect("it fits");
    }
    let config = InferenceConfig {
        block_size: 4,
        max_batch_size: 1,
        kv_tiers: KvTiers {
            disk: Some(DiskLevel { folder: folder.into(), bytes: 64 << 20 }),
            wait_ms: Some(10_000),
            ..KvTiers::default()
        },
        ..config()
    };
    let mut engine = InferenceEngine::new(model, &config).expect("a sound configuration");
    let generation = GenerationConfig {
        max_new_tokens: Some(12),
        ignore_eos: Some(true),
        ..GenerationConfig::default()
    };
    let text: Vec<TokenId> = (0..40).map(|i| 3 + i * 7 % 200).collect();
    let outputs = engine.generate(text, &generation).expect("an output");
    let read = engine.stats().tier_pages_read;
    engine.flush();
    (outputs[0].outputs[0].token_ids.clone(), read)
}

#[test]
fn pages_on_a_disk_are_found_by_the_same_adapter_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let adapters = [None, Some("lora"), Some("lora_patterns"), Some("written_dora")];
    let first = adapters.map(|adapter| run(adapter, folder.path()));
    for (i, (output, read)) in first.iter().enumerate() {
        assert_eq!(*read, 0, "{:?} took pages of another", adapters[i]);
        let same = first[..i].iter().position(|(other, _)| other == output);
        assert_eq!(same, None, "{:?} changes nothing", adapters[i]);
    }
    let again = adapters.map(|adapter| run(adapter, folder.path()));
    for ((adapter, first), again) in adapters.iter().zip(first).zip(again) {
        assert_eq!(again.0, first.0, "{adapter:?}");
        assert!(0 < again.1, "{adapter:?} found none of its own pages");
    }
}
