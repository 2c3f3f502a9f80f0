//! Measurements so small that they say nothing about speed.

use clap::Parser;

use super::*;

#[derive(Parser, Debug)]
struct Typed {
    #[command(flatten)]
    attention: AttentionArgs,
}

/// On the CPU, so that the test is the same on every machine.
fn report(words: &str) -> Result<AttentionReport> {
    let fixed = "attention --device cpu --threads 1 --repeat 1";
    let words = fixed.split_whitespace().chain(words.split_whitespace());
    measure(&Typed::try_parse_from(words).expect("the command line is right").attention)
}

#[test]
fn each_step_is_measured_without_and_with_weights() {
    let heads = "--heads 4 --kv-heads 2 --head-dim 16 --keys 40 --page-slots 7";
    let steps = "--batch 2 --chunk 5 --format default,torch-quantized4";
    let report = report(&format!("{heads} {steps}")).expect("it runs");
    let json = serde_json::to_value(&report).expect("a report is JSON");
    let measured = json["measurements"].as_array().expect("a list");
    let of = |key: &str| measured.iter().map(|one| one[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("step"), [["decode"; 4], ["chunk"; 4]].concat());
    assert_eq!(of("weights"), [[false, true]; 4].concat());
    assert!(measured.iter().all(|one| one["ms"].as_f64() > Some(0.0)), "{measured:?}");
    let table = report.to_string();
    for word in ["decode: 2 x 1 rows", "chunk: 1 x 5 rows", "torch-quantized4", "GB/s", "FLOP/s"] {
        assert!(table.contains(word), "{word} is not in\n{table}");
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    for (words, why) in [
        ("--batch 0", "1 or more"),
        ("--heads 4 --kv-heads 3", "4 query heads cannot share 3"),
        ("--keys 8 --chunk 9", "does not fit into 8 slots"),
        ("--head-dim 7", "must be even"),
        ("--portable-kernels", "is for a GPU"),
    ] {
        let error = report(words).err().expect("refused").to_string();
        assert!(error.contains(why), "{words}: {error}");
    }
}
