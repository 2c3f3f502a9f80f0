//! Which models have the same fingerprint.

use std::path::Path;

use terrace_model::{
    Adapter, AdapterHash, Families, HashStore, LoadedModel, ModelFingerprint, WeightsHash,
};
use terrace_testkit::{TinyModel, golden_set};

fn open(folder: &Path) -> LoadedModel {
    LoadedModel::open(folder, &Families::known()).expect("a model")
}

fn fingerprint(model: &LoadedModel) -> ModelFingerprint {
    ModelFingerprint::new(&model.hash_weights().wait(), None, &model.spec)
}

#[test]
fn names_and_folders_do_not_change_a_fingerprint_but_a_weight_does() {
    let (one, other) = (TinyModel::new(), TinyModel::new());
    let own = fingerprint(&open(&one.path()));
    let mut renamed = open(&other.path());
    renamed.name = "another name".into();
    assert_eq!(fingerprint(&renamed), own);
    let path = other.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).expect("its weights");
    *bytes.last_mut().expect("weights") ^= 1;
    std::fs::write(&path, bytes).expect("writable");
    assert_ne!(fingerprint(&open(&other.path())), own);
}

#[test]
fn a_longer_context_has_a_fingerprint_of_its_own_where_positions_are_scaled() {
    let tiny = TinyModel::new();
    let model = open(&tiny.path());
    let (own, weights) = (fingerprint(&model), model.hash_weights().wait());
    let context = model.spec.context_tokens;
    let print = |spec| ModelFingerprint::new(&weights, None, &spec);
    assert_eq!(print(model.spec.clone().scaled(context).expect("a rotation")), own);
    assert_ne!(print(model.spec.clone().scaled(2 * context).expect("a rotation")), own);
    assert_ne!(print(model.spec.following_length(context).expect("a rotation")), own);
}

/// Keys and values are changed by what changes their products.
#[test]
fn each_adapter_has_a_fingerprint_of_its_own() {
    let model = open(&TinyModel::new().path());
    let weights = model.hash_weights().wait();
    let hash = |name: &str| {
        let adapter = Adapter::open(&golden_set("adapters").join(name), &model.spec);
        adapter.expect("a good adapter").hash()
    };
    let print =
        |adapter: Option<&AdapterHash>| ModelFingerprint::new(&weights, adapter, &model.spec);
    let hashes = ["lora", "lora_patterns", "written_lora", "written_dora"].map(hash);
    let prints: Vec<ModelFingerprint> =
        [None].into_iter().chain(hashes.iter().map(Some)).map(print).collect();
    for (i, own) in prints.iter().enumerate() {
        assert!(!prints[..i].contains(own), "adapter {i} is not seen");
    }
    assert_eq!(print(Some(&hash("lora"))), prints[1]);
}

#[test]
fn models_folders_are_not_written() {
    let tiny = TinyModel::new();
    let files = || {
        let mut names: Vec<String> = tiny.files().into_iter().map(|(name, _)| name).collect();
        names.sort();
        names
    };
    let before = files();
    let mut model = open(&tiny.path());
    let hashes = tempfile::tempdir().expect("a temporary folder");
    model.hash_store = Some(HashStore::at(hashes.path().into()));
    let hash = model.hash_weights().wait();
    assert_eq!(files(), before);
    assert_eq!(std::fs::read_dir(hashes.path()).expect("a folder").count(), 1);
    assert_eq!(open(&tiny.path()).hash_weights().wait(), hash);
}

/// Weights that are in no file are known by their numbers.
#[test]
fn a_changed_tensor_changes_the_hash_of_tensors() {
    let tensors = open(&TinyModel::new().path()).tensors;
    let own = WeightsHash::of_tensors(&tensors);
    assert_eq!(WeightsHash::of_tensors(&open(&TinyModel::new().path()).tensors), own);
    let mut others = [tensors.clone(), tensors.clone(), tensors.clone()];
    others[0].final_norm[0] += 1.0;
    others[1].layers.swap(0, 1);
    others[2].layers[0].query.bias = Some(vec![0.0; tensors.layers[0].query.weight.rows()]);
    let hashes: Vec<WeightsHash> = others.iter().map(WeightsHash::of_tensors).collect();
    for (i, hash) in hashes.iter().enumerate() {
        assert!(*hash != own && !hashes[..i].contains(hash), "change {i} is not seen");
    }
}
