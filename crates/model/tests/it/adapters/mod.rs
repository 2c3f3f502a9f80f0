//! Adapters: what PEFT computes with those it wrote, and with those that were written here.

mod beside_blocks;
mod damaged;
mod random_adapter;
mod written;

use std::path::Path;
use std::sync::Arc;

use terrace_device::Buffer;
use terrace_kernels::{BiasedWeight, Compute, CpuLevel, CpuOptions, Matrix, Ops, RopeStyle};
use terrace_model::golden::{CaseFindings, Feeding, GoldenModel, check_case};
use terrace_model::{Adapter, DecoderSpec, LoraKind};
use terrace_testkit::{golden_cases, golden_set};

/// A model without adapters.
fn base(name: &str) -> GoldenModel {
    let folder = golden_set("llm").join(name);
    GoldenModel::open(&folder, &folder.join("config.json")).expect("a golden model")
}

/// The model that a case's adapter is for.
fn base_of(folder: &Path) -> GoldenModel {
    let config = std::fs::read(folder.join("adapter_config.json")).expect("a configuration");
    let config: serde_json::Value = serde_json::from_slice(&config).expect("JSON");
    base(config["base_model_name_or_path"].as_str().expect("a name"))
}

fn findings(case: &GoldenModel, level: CpuLevel) -> CaseFindings {
    let all = level == CpuLevel::detect();
    let feedings = if all { Feeding::all() } else { vec![Feeding::ONE] };
    let options = CpuOptions { threads: 2, level: Some(level), compute: Compute::F32 };
    check_case(case, &feedings, |_| Ops::cpu(options)).expect("a case that runs")
}

#[test]
fn logits_and_greedy_ids_are_those_of_peft() {
    for (name, folder) in golden_cases("adapters") {
        let case = base_of(&folder).with_adapter(&folder).expect("a good adapter");
        for level in CpuLevel::available() {
            let findings = findings(&case, level);
            assert!(findings.passed() && 0 < findings.greedy_tokens, "{name}: {findings:?}");
        }
    }
}

/// As GGUF files have Llama's queries and keys.
#[test]
fn rows_that_the_model_has_in_another_order_get_their_branches() {
    for name in ["lora", "lora_patterns", "written_dora"] {
        let mut case = base("llama_plain");
        case.spec.ropes[0].style = RopeStyle::Interleaved;
        for layer in &mut case.tensors.layers {
            for product in [&mut layer.query, &mut layer.key] {
                *product = in_turns(product, 16);
            }
        }
        let case = case.with_adapter(&golden_set("adapters").join(name)).expect("it is for it");
        let findings = findings(&case, CpuLevel::detect());
        assert!(findings.passed(), "{name}: {findings:?}");
    }
}

/// The halves of each head in turns.
fn in_turns(product: &BiasedWeight, head_dim: usize) -> BiasedWeight {
    let weight = &product.weight;
    assert!(product.bias.is_none(), "no bias to be moved");
    let file_row = |row: usize| {
        let (head, i) = (row / head_dim, row % head_dim);
        head * head_dim + i % 2 * (head_dim / 2) + i / 2
    };
    let mut buffer = Buffer::zeroed(weight.bytes().len(), "weights").expect("memory");
    let rows = buffer.bytes_mut().chunks_exact_mut(weight.row(0).len());
    rows.enumerate().for_each(|(row, out)| out.copy_from_slice(weight.row(file_row(row))));
    let (rows, columns) = (weight.rows(), weight.columns());
    let weight = Matrix::new(weight.format(), rows, columns, Arc::new(buffer));
    BiasedWeight { weight, bias: None }
}

#[test]
fn an_adapter_says_what_it_is() {
    let spec = base("qwen2").spec;
    let open = |name: &str, spec: &DecoderSpec| {
        Adapter::open(&golden_set("adapters").join(name), spec).expect("a good adapter")
    };
    let dora = open("dora", &spec);
    let found = (dora.name(), dora.base_model(), dora.kind(), dora.products().len());
    assert_eq!(found, ("dora", Some("qwen2"), LoraKind::Dora, 3 * 7));
    let products = |adapter: &Adapter| -> Vec<String> {
        adapter.products().map(|product| product.to_string()).collect()
    };
    assert_eq!(
        products(&open("lora_layers", &spec)),
        ["model.layers.1.self_attn.k_proj", "model.layers.1.mlp.up_proj"]
    );
    let patterns = open("lora_patterns", &base("llama_plain").spec);
    assert_eq!(patterns.products().len(), 3 * 7 + 1 - 1);
    assert_eq!(products(&patterns).last().map(String::as_str), Some("lm_head"));
}
