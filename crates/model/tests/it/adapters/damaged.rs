//! Adapters that cannot be used, and what is said of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use terrace_device::Buffer;
use terrace_kernels::{Compute, CpuOptions, Matrix, Ops};
use terrace_model::{Adapter, Decoder, Families, LoadedModel};
use terrace_testkit::{TinyModel, golden_set};

use super::base;
use crate::safetensors_writer::SafetensorsWriter;

type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// The files of the golden case `lora`, to be changed.
struct Files {
    config: Value,
    tensors: Tensors,
}

impl Files {
    fn golden(name: &str) -> Self {
        let folder = golden_set("adapters").join(name);
        let read = |file: &str| std::fs::read(folder.join(file)).expect("a golden file");
        let bytes = read("adapter_model.safetensors");
        let file = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
        let tensors = file.tensors().into_iter().map(|(name, tensor)| {
            let numbers =
                tensor.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
            (name, (tensor.shape().to_vec(), numbers.collect()))
        });
        let tensors = tensors.collect();
        Files {
            config: serde_json::from_slice(&read("adapter_config.json")).expect("JSON"),
            tensors,
        }
    }

    fn write(&self, folder: &Path) {
        let config = self.config.to_string();
        std::fs::write(folder.join("adapter_config.json"), config).expect("writable");
        let mut file = SafetensorsWriter::default();
        for (name, (shape, numbers)) in &self.tensors {
            file = file.f32(name, shape, numbers);
        }
        std::fs::write(folder.join("adapter_model.safetensors"), file.to_bytes())
            .expect("writable");
    }

    fn open(&self, model: &str) -> Result<Adapter, String> {
        let folder = tempfile::tempdir().expect("a folder");
        self.write(folder.path());
        Adapter::open(folder.path(), &base(model).spec).map_err(|error| error.to_string())
    }
}

/// A part of a message for each part of the adapter that must be named.
#[track_caller]
fn check(change: impl FnOnce(&mut Files), wanted: &[&str]) {
    let mut files = Files::golden("lora");
    change(&mut files);
    let message = files.open("llama_plain").expect_err("it is damaged");
    for part in wanted {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

fn set(field: &str, value: Value) -> impl FnOnce(&mut Files) {
    move |files| files.config[field] = value
}

const Q_A: &str = "base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight";
const Q_B: &str = "base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight";
const K_A: &str = "base_model.model.model.layers.1.self_attn.k_proj.lora_A.weight";

#[test]
fn what_is_not_damaged_is_opened() {
    assert!(Files::golden("lora").open("llama_plain").is_ok());
}

#[test]
fn missing_files_are_named() {
    let spec = base("llama_plain").spec;
    let folder = tempfile::tempdir().expect("a folder");
    let message = || Adapter::open(folder.path(), &spec).expect_err("files miss").to_string();
    assert!(message().contains("adapter_config.json"), "{}", message());
    Files::golden("lora").write(folder.path());
    std::fs::remove_file(folder.path().join("adapter_model.safetensors")).expect("it is there");
    assert!(message().contains("adapter_model.safetensors"), "{}", message());
    std::fs::write(folder.path().join("adapter_model.safetensors"), "torn").expect("writable");
    assert!(message().contains("adapter_model.safetensors"), "{}", message());
    std::fs::write(folder.path().join("adapter_config.json"), "{").expect("writable");
    assert!(message().contains("adapter_config.json"), "{}", message());
}

#[test]
fn other_kinds_of_adapters_are_refused() {
    check(set("peft_type", json!("IA3")), &["adapter_config.json", "peft_type is \"IA3\"", "LORA"]);
    check(set("peft_type", json!(null)), &["no peft_type"]);
    check(set("terrace_lora_kind", json!("other")), &["terrace_lora_kind", "rms_norm"]);
    let both = |files: &mut Files| {
        files.config["use_dora"] = json!(true);
        files.config["terrace_lora_kind"] = json!("rms_norm");
    };
    check(both, &["use_dora", "terrace_lora_kind"]);
}

#[test]
fn options_that_would_change_the_result_are_refused_by_name() {
    check(set("bias", json!("all")), &["bias is \"all\"", "bias=\"none\""]);
    check(set("bias", json!("lora_only")), &["bias is \"lora_only\""]);
    check(set("modules_to_save", json!(["lm_head"])), &["modules_to_save", "merge_and_unload"]);
    check(set("fan_in_fan_out", json!(true)), &["fan_in_fan_out is true"]);
    check(set("lora_bias", json!(true)), &["lora_bias is true"]);
    check(set("layer_replication", json!([[0, 2], [1, 3]])), &["layer_replication"]);
    check(set("trainable_token_indices", json!([7])), &["trainable_token_indices"]);
    check(set("target_parameters", json!(["experts.down_proj"])), &["target_parameters"]);
    check(set("alora_invocation_tokens", json!([1, 2])), &["alora_invocation_tokens is [1,2]"]);
    check(set("use_qalora", json!(true)), &["use_qalora"]);
    check(set("ensure_weight_tying", json!(true)), &["ensure_weight_tying"]);
    check(set("kasa_config", json!({"beta": 0.1})), &["kasa_config"]);
    check(set("use_bdlora", json!({"nblocks": 2})), &["use_bdlora"]);
    check(set("an_option_of_tomorrow", json!(2)), &["an_option_of_tomorrow is 2"]);
    check(
        set("init_lora_weights", json!("pissa_niter_4")),
        &["init_lora_weights", "pissa_niter_4"],
    );
    check(set("init_lora_weights", json!("loftq")), &["init_lora_weights", "loftq"]);
    check(set("layers_pattern", json!("h")), &["layers_pattern"]);
}

#[test]
fn options_of_training_have_no_use_and_are_no_fault() {
    let mut files = Files::golden("lora");
    for (field, value) in [
        ("lora_dropout", json!(0.1)),
        ("init_lora_weights", json!("gaussian")),
        ("inference_mode", json!(false)),
        ("loftq_config", json!({"loftq_bits": 4})),
        ("revision", json!("main")),
        ("layers_pattern", json!("layers")),
        ("task_type", json!(null)),
        ("an_option_of_tomorrow", json!(null)),
    ] {
        files.config[field] = value;
    }
    assert_eq!(files.open("llama_plain").map(|adapter| adapter.products().len()), Ok(6));
}

#[test]
fn what_the_configuration_lacks_is_named() {
    check(set("target_modules", json!(null)), &["no target_modules"]);
    check(set("target_modules", json!([])), &["target_modules means no product"]);
    check(set("target_modules", json!(["q_proj", "wte"])), &["\"wte\"", "3 layers", "up_proj"]);
    check(set("target_modules", json!(7)), &["target_modules"]);
    check(set("target_modules", json!("(?=q)")), &["target_modules", "(?=q)"]);
    check(set("r", json!(0)), &["r has no whole number from 1"]);
    check(set("r", json!(2.5)), &["r has no whole number"]);
    check(set("rank_pattern", json!({"q_proj": -1})), &["rank_pattern has no whole number"]);
    check(set("lora_alpha", json!("8")), &["lora_alpha"]);
    check(
        set("lora_alpha", json!(1e300)),
        &["layers.0.self_attn.q_proj", "rank 4 and alpha 1e300"],
    );
    check(set("use_rslora", json!("yes")), &["use_rslora is \"yes\""]);
    check(set("layers_to_transform", json!([0, "1"])), &["layers_to_transform"]);
}

#[test]
fn tensors_that_miss_or_are_too_many_are_named() {
    check(|files| drop(files.tensors.remove(Q_B)), &["adapter_model.safetensors", Q_B]);
    check(set("target_modules", json!(["q_proj", "k_proj", "v_proj"])), &["k_proj.lora_A.weight"]);
    check(set("target_modules", json!(["v_proj"])), &["q_proj.lora_A.weight", "belongs to none"]);
    check(set("layers_to_transform", json!(0)), &["layers.1.self_attn.q_proj.lora_A.weight"]);
    let extra = |name: &'static str| {
        move |files: &mut Files| {
            files.tensors.insert(name.to_owned(), (vec![4, 64], vec![0.0; 256]));
        }
    };
    check(extra(K_A), &[K_A, "belongs to none"]);
    let replaced = "base_model.model.lm_head.base_layer.weight";
    check(extra(replaced), &[replaced, "save_embedding_layers=False"]);
    check(set("use_dora", json!(true)), &["q_proj.lora_magnitude_vector"]);
    check(set("terrace_lora_kind", json!("rms_norm")), &["q_proj.lora_norm.weight"]);
}

#[test]
fn shapes_are_those_of_the_rank_and_of_the_model() {
    check(set("r", json!(8)), &["q_proj.lora_A.weight", "[4, 64]", "[8, 64]"]);
    check(set("rank_pattern", json!({"v_proj": 2})), &["v_proj.lora_A.weight", "[2, 64]"]);
    let flat = |files: &mut Files| files.tensors.get_mut(Q_A).expect("it is there").0 = vec![256];
    check(flat, &[Q_A, "[256]", "[4, 64]"]);
    let not_a_number = |files: &mut Files| {
        files.tensors.get_mut(Q_A).expect("it is there").1[17] = f32::NAN;
    };
    check(not_a_number, &[Q_A, "NaN"]);
    // Half as many heads of keys and values.
    let message = Files::golden("lora").open("qwen2").expect_err("another model's");
    for part in ["v_proj.lora_B.weight", "[64, 4]", "[32, 4]", "llama_plain"] {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

#[test]
fn a_model_takes_no_adapter_of_another_ones_shapes() {
    let model = LoadedModel::open(&TinyModel::new().path(), &Families::known()).expect("a model");
    let folder = golden_set("adapters").join("dora");
    let adapter = Adapter::open(&folder, &base("qwen2").spec).expect("it is for it");
    let error = model.with_adapter(adapter).err().expect("it has other shapes").to_string();
    assert!(error.contains("\"dora\"") && error.contains("k_proj"), "{error}");
}

/// DoRA divides by the length of a row.
#[test]
fn rows_without_a_direction_are_refused_by_name() {
    let mut files = Files::golden("dora");
    let query_b = "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight";
    files.tensors.get_mut(query_b).expect("it is there").1.fill(0.0);
    let mut case = base("qwen2");
    case.tensors.adapter = Some(Arc::new(files.open("qwen2").expect("all is there")));
    let query = &mut case.tensors.layers[0].query.weight;
    let zeros = Buffer::zeroed(query.bytes().len(), "weights").expect("memory");
    *query = Matrix::new(query.format(), query.rows(), query.columns(), Arc::new(zeros));
    let options = CpuOptions { threads: 1, level: None, compute: Compute::F32 };
    let ops = Ops::cpu(options).expect("the processor's level");
    let placed = Decoder::place(case.spec, case.tensors, &ops, || {});
    let message = placed.err().expect("a row has no direction").to_string();
    assert!(message.contains("model.layers.0.self_attn.q_proj"), "{message}");
}
