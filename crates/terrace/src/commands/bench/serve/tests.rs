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
    let fixed = ["--device", "cpu", "--threads", "1"];
    let words = fixed.into_iter().chain(model.iter().copied()).chain(load.split_whitespace());
    typed(words).expect("the command line is right")
}

fn tiny_args(model: &TinyModel, load: &str) -> ServeBenchArgs {
    args(&["--model", &model.path().to_string_lossy()], load)
}

fn typed<'a>(words: impl Iterator<Item = &'a str>) -> Result<ServeBenchArgs> {
    let Typed { serve } = Typed::try_parse_from(std::iter::once("serve").chain(words))?;
    serve.check()?;
    Ok(serve)
}

#[track_caller]
fn check_measured(report: &ServeReport, loads: usize, tokens: u64) -> Value {
    let text = report.to_string();
    assert!(text.contains("TTFT ms") && text.contains('#'), "{text}");
    let json = serde_json::to_value(report).expect("a report is JSON");
    assert_eq!(json["loads"].as_array().map(Vec::len), Some(loads), "{json}");
    for load in json["loads"].as_array().expect("a list") {
        assert_eq!((&load["tokens"], &load["failed"]), (&tokens.into(), &0.into()), "{load}");
        for wait in ["ttft_ms", "itl_ms"] {
            let ms = |name: &str| load[wait][name].as_f64().expect("a time");
            assert!(0.0 < ms("p50") && ms("p50") <= ms("p90"), "{load}");
            assert!(ms("p90") <= ms("p99") && ms("p99") <= ms("largest"), "{load}");
        }
    }
    json
}

#[track_caller]
fn check_tiny(load: &str, loads: usize, tokens: u64) -> Value {
    let model = TinyModel::new();
    check_measured(&measure_own(&tiny_args(&model, load)).expect("it runs"), loads, tokens)
}

#[test]
fn every_token_of_every_stream_is_counted() {
    let load = "--streams 3 --requests 7 --prompt-tokens 40 --new-tokens 60";
    let json = check_tiny(load, 1, 7 * 60);
    assert_eq!(json["random_weights"], Value::Null);
    assert_eq!(json["loads"][0]["load"]["streams"], 3);
}

#[test]
fn requests_come_at_each_rate_whether_the_service_keeps_up_or_not() {
    let load = "--rate 50,2000 --requests 6 --streams 2 --prompt-tokens 20 --new-tokens 30";
    let json = check_tiny(load, 2, 6 * 30);
    assert_eq!(json["loads"][1]["load"]["requests_per_second"], 2000.0);
}

#[test]
fn another_server_is_measured_by_its_address() {
    let model = TinyModel::new();
    let sizes = "--streams 2 --prompt-tokens 8 --new-tokens 10";
    let (server, prompts) = start(&tiny_args(&model, sizes)).expect("it starts");
    let url = format!("http://{}", server.address);
    let at = |sizes: &str| {
        let words = format!("--url {url} --vocab {} {sizes}", prompts.vocab());
        measure_url(&typed(words.split_whitespace()).expect("the command line is right"), &url)
    };
    let json = check_measured(&at(sizes).expect("it runs"), 1, 2 * 10);
    assert_eq!((&json["url"], &json["model"]), (&url.as_str().into(), &server.model.name().into()));

    let refused = at("--streams 2 --prompt-tokens 8 --new-tokens 100000").err();
    let refused = refused.expect("no output can be so long").to_string();
    assert!(refused.starts_with("all 2 requests failed, the first: 400"), "{refused}");
    server.stop().expect("it stops");
}

#[test]
fn a_shape_serves_numbers_one_event_a_token() {
    let shape = ["--shape", "smollm2-135m", "--random-weights", "--weights", "q4_0"];
    let args = args(&shape, "--streams 1 --prompt-tokens 3 --new-tokens 6");
    let json = check_measured(&measure_own(&args).expect("it runs"), 1, 6);
    let load = &json["loads"][0];
    assert!(load["decode_tokens_per_second"].as_f64().is_some_and(|rate| 0.0 < rate), "{json}");
    assert_eq!((&load["events"], &json["random_weights"]), (&load["tokens"], &"Q4_0".into()));
}

#[test]
fn a_soak_leaves_nothing_behind() {
    let model = TinyModel::new();
    // Pages for about two of the longest requests: the others wait, or are preempted.
    let load = "--streams 6 --prompt-tokens 60 --new-tokens 40 --kv-memory 256KiB --soak 1";
    let report = soak(&tiny_args(&model, load), 1).expect("it runs");
    report.verdict().unwrap_or_else(|error| panic!("{error:#}\n{report}"));
    let json = serde_json::to_value(&report).expect("a report is JSON");
    assert!(json["finished"].as_u64() > Some(0) && json["cancelled"].as_u64() > Some(0), "{json}");
    assert!(report.to_string().contains("all free"), "{report}");
}

#[test]
fn what_would_make_streams_wait_is_refused() {
    let model = TinyModel::new();
    let load = "--streams 4 --max-batch-size 2 --prompt-tokens 8 --new-tokens 8";
    let error = measure_own(&tiny_args(&model, load)).err().expect("two would wait").to_string();
    assert!(error.contains("4 requests shall run at once"), "{error}");
}

#[test]
fn options_that_cannot_act_or_make_no_sense_are_refused() {
    for wrong in [
        "--url http://127.0.0.1:1 --threads 2",
        "--url http://127.0.0.1:1 --model a",
        "--url http://127.0.0.1:1 --shape llama3-8b --random-weights",
        "--url http://127.0.0.1:1 --soak 1",
        "--vocab 10",
        "--rate 2 --soak 1",
        "--rate 0",
        "--rate -1",
        "--rate 1,NaN",
        "--requests 0",
        "--streams 0",
        "--new-tokens 1",
    ] {
        assert!(typed(wrong.split_whitespace()).is_err(), "{wrong}");
    }
    typed("--url http://127.0.0.1:1 --rate 0.5,2 --requests 9".split_whitespace()).expect("right");
}
