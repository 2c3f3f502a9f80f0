//! A model whose layers are two groups, set up as a server does.

use terrace_engine::{DeviceChoice, EngineSetup, Error, InferenceConfig, WeightSource};
use terrace_model::AttentionSpec;

use crate::tiny_model::tiny;

/// The first layer sees a window.
fn setup(kv_memory_bytes: Option<usize>) -> Result<EngineSetup, Error> {
    let model = tiny();
    let hash = model.hash_weights();
    let mut spec = model.spec;
    let AttentionSpec::GroupedQuery(attention) = &mut spec.layers[0].attention;
    attention.window = Some(8);
    let config = InferenceConfig {
        device: DeviceChoice::Cpu,
        threads: Some(1),
        max_batch_size: 2,
        max_input_len: 100,
        max_output_len: 28,
        kv_memory_bytes,
        ..InferenceConfig::default()
    };
    EngineSetup::new(spec, WeightSource::Files { tensors: model.tensors, hash }, &config, || {})
}

#[test]
fn every_group_has_room_for_a_page_or_the_start_is_refused() {
    let whole = setup(None).expect("an engine").memory;
    let [first, second] = whole.page_tokens[..] else { panic!("two groups: {whole:?}") };
    assert_eq!(first.min(second), 16, "the larger group has the block size");
    assert_eq!(whole.kv_pages, 2 * (128usize.div_ceil(first) + 128usize.div_ceil(second)));
    assert_eq!(whole.held_tokens(), 128);
    let page_bytes = whole.kv_bytes / whole.kv_pages;
    let error = setup(Some(2 * page_bytes - 1)).err().expect("one page for two groups");
    assert!(matches!(error, Error::KvMemoryTooSmall { pages: 2, .. }), "{error}");
    let least = setup(Some(2 * page_bytes)).expect("a page for each group");
    assert_eq!((least.memory.kv_pages, least.context_tokens), (2, 16));
}
