//! Measurements so small that they say nothing about speed.

use clap::Parser;

use super::*;

#[derive(Parser, Debug)]
struct Typed {
    #[command(flatten)]
    transfer: TransferArgs,
}

/// On the CPU, so that the test is the same on every machine.
fn report(words: &str) -> Result<TransferReport> {
    let fixed = "transfer --device cpu --repeat 1";
    let words = fixed.split_whitespace().chain(words.split_whitespace());
    measure(&Typed::try_parse_from(words).expect("the command line is right").transfer)
}

#[test]
fn both_directions_are_measured_in_all_cuts() {
    let report = report("--page-bytes 96 --pages 5 --layers 8").expect("it runs");
    let json = serde_json::to_value(&report).expect("a report is JSON");
    let moves = json["moves"].as_array().expect("a list");
    let of = |key: &str| moves.iter().map(|one| one[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("direction"), [["to device"; 3], ["to host"; 3]].concat());
    assert_eq!(of("cuts"), [["whole", "by layer", "graded"]; 2].concat());
    assert!(moves.iter().all(|one| one["gb_per_second"].as_f64() > Some(0.0)), "{moves:?}");
    assert_eq!(json["both"].as_array().map(Vec::len), Some(1));
    let table = report.to_string();
    for word in ["5 pages of 96 B with 8 layers", "pinned at", "by layer", "both at once"] {
        assert!(table.contains(word), "{word} is not in\n{table}");
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    for (words, why) in [
        ("--pages 0", "1 or more"),
        ("--page-bytes 0", "1 or more"),
        ("--page-bytes 100 --layers 3", "3 layers do not divide a page of 100 bytes"),
    ] {
        let error = report(words).err().expect("refused").to_string();
        assert!(error.contains(why), "{words}: {error}");
    }
}
