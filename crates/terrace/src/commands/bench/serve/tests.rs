//! The service with models so small that they say nothing about speed.

use clap::Parser;
use serde_json::Value;
use terrace_testkit::TinyModel;

use super::*;

#[derive(Parser, Debug)]
struct Typed {
    #[command(flatten)]
    serve: ServeBenchArgs,
}

/// On the CPU, so that the test is the same on every machine.
fn args(model: &[&str], load: &str) -> ServeBenchArgs {
    let fixed = ["serve", "--device", "cpu", "--threads", "1"];
    let words = fixed.into_iter().chain(model.iter().copied()).chain(load.split_whitespace());
    let Typed { serve } = Typed::try_parse_from(words).expect("the command line is right");
    serve.check().expect("the sizes are right");
    serve
}

#[track_caller]
fn check_measured(args: &ServeBenchArgs, tokens: u64) -> Value {
    let report = measure(args).expect("it runs");
    let text = report.to_string();
    assert!(text.contains("written tok/s") && text.contains("p99"), "{text}");
    let json = serde_json::to_value(&report).expect("a report is JSON");
    assert_eq!(json["tokens"], tokens, "{json}");
    for number in ["first_token_ms_median", "next_token_ms_p99"] {
        assert!(json[number].as_f64().is_some_and(|number| 0.0 < number), "{number} in {json}");
    }
    json
}

#[test]
fn every_token_of_every_stream_is_counted() {
    let model = TinyModel::new();
    let path = model.path();
    let model = ["--model", &path.to_string_lossy()];
    let args = args(&model, "--streams 3 --prompt-tokens 40 --new-tokens 60");
    let json = check_measured(&args, 3 * 60);
    assert_eq!(json["random_weights"], Value::Null);
}

#[test]
fn a_shape_serves_numbers_one_event_a_token() {
    let shape = ["--shape", "smollm2-135m", "--random-weights", "--weights", "q4_0"];
    let args = args(&shape, "--streams 1 --prompt-tokens 3 --new-tokens 6");
    let json = check_measured(&args, 6);
    assert!(json["written_per_second"].as_f64().is_some_and(|rate| 0.0 < rate), "{json}");
    assert_eq!((&json["events"], &json["random_weights"]), (&json["tokens"], &"Q4_0".into()));
}

#[test]
fn a_soak_leaves_nothing_behind() {
    let model = TinyModel::new();
    let path = model.path();
    let model = ["--model", &path.to_string_lossy()];
    // Pages for about two of the longest requests: the others wait, or are preempted.
    let load = "--streams 6 --prompt-tokens 60 --new-tokens 40 --kv-memory 256KiB --soak 1";
    let report = soak(&args(&model, load), 1).expect("it runs");
    report.verdict().unwrap_or_else(|error| panic!("{error:#}\n{report}"));
    let json = serde_json::to_value(&report).expect("a report is JSON");
    assert!(json["answered"].as_u64() > Some(0) && json["left"].as_u64() > Some(0), "{json}");
    assert!(report.to_string().contains("all free"), "{report}");
}

#[test]
fn what_would_make_streams_wait_is_refused() {
    let model = TinyModel::new();
    let path = model.path();
    let model = ["--model", &path.to_string_lossy()];
    let load = "--streams 4 --max-batch-size 2 --prompt-tokens 8 --new-tokens 8";
    let error = measure(&args(&model, load)).err().expect("two would wait").to_string();
    assert!(error.contains("4 requests shall run at once"), "{error}");
}
