//! Measurements of models so small that they say nothing about speed.

use clap::Parser;
use terrace_engine::{InferenceConfig, WeightSource};
use terrace_kernels::WeightFormat;
use terrace_model::KnownShape;
use terrace_testkit::TinyModel;

use super::*;

#[derive(Parser, Debug)]
struct Typed {
    #[command(flatten)]
    llm: LlmArgs,
}

/// On the CPU, so that the test is the same on every machine.
fn report(model: &[&str], load: &str) -> Result<LlmReport> {
    let fixed = ["llm", "--device", "cpu", "--threads", "1"];
    let words = fixed.into_iter().chain(model.iter().copied()).chain(load.split_whitespace());
    let Typed { llm } = Typed::try_parse_from(words).expect("the command line is right");
    llm.check()?;
    measure(&llm)
}

fn on_tiny_model(load: &str) -> Result<LlmReport> {
    let model = TinyModel::new();
    report(&["--model", &model.path().to_string_lossy()], load)
}

#[test]
fn a_model_of_files_is_measured_at_each_batch_size() {
    let load = "--batch 1,3 --prompt-tokens 20 --new-tokens 40 --repeat 2 --bandwidth 10";
    let report = on_tiny_model(load).expect("it runs");
    let json = serde_json::to_value(&report).expect("a report is JSON");
    assert_eq!(json["device"], "cpu");
    assert_eq!(json["random_weights"], serde_json::Value::Null);
    let rows = json["rows"].as_array().expect("a list");
    assert_eq!(rows.iter().map(|row| &row["batch"]).collect::<Vec<_>>(), [1, 3]);
    for row in rows {
        for rate in ["prefill_tokens_per_second", "decode_tokens_per_second"] {
            let of = |which: &str| row[rate][which].as_f64().expect("a number");
            assert!(0.0 < of("least") && of("least") <= of("median"), "{row}");
            assert!(of("median") <= of("best") && of("best").is_finite(), "{row}");
        }
        assert!(0.0 < row["roofline_ms"].as_f64().expect("a roofline was requested"), "{row}");
        let mixed = &row["mixed"];
        if row["batch"] == 1 {
            assert_eq!(mixed, &serde_json::Value::Null);
        } else {
            assert_eq!(mixed["decoding"], 2);
            assert!(mixed["decode_tokens_per_second"]["least"].as_f64() > Some(0.0), "{row}");
        }
    }
    let table = report.to_string();
    assert!(table.contains("kv pool") && table.contains("mixed: one request prefills"), "{table}");
    assert_eq!(table.lines().filter(|line| line.ends_with('%')).count(), 2, "{table}");
}

#[test]
fn a_shape_is_measured_without_files() {
    let shape = ["--shape", "smollm2-135m", "--random-weights", "--weights", "q4_0"];
    let load = "--batch 2 --prompt-tokens 3 --new-tokens 8 --repeat 1 --no-mixed";
    let report = report(&shape, load).expect("it runs");
    assert_eq!((report.model.as_str(), report.random_weights), ("smollm2-135m", Some("Q4_0")));
    assert_eq!(report.rows.len(), 1);
    assert!(report.to_string().contains("smollm2-135m with random Q4_0 weights"), "{report}");
    assert!(!report.to_string().contains("mixed"), "{report}");
}

#[test]
fn a_format_that_does_not_fit_the_shape_is_refused() {
    let shape = ["--shape", "smollm2-135m", "--random-weights", "--weights", "q4_k"];
    let error = report(&shape, "").err().expect("576 is no multiple of 256").to_string();
    assert_eq!(error, "Q4_K stores blocks of 256 weights, smollm2-135m has rows of 576");
}

#[test]
fn what_would_make_requests_wait_is_refused() {
    #[track_caller]
    fn refused(load: &str, why: &str) {
        let error = on_tiny_model(load).err().expect("it was measured").to_string();
        assert!(error.contains(why), "{error}");
    }
    refused(
        "--batch 4 --max-batch-size 2",
        "4 requests shall run at once, --max-batch-size allows 2",
    );
    refused("--batch 2 --kv-memory 64KiB", "2 requests of 640 tokens need 80 kv pages of 16");
    refused("--batch 0", "batches of 1 or more");
    refused("--new-tokens 1", "at least 2 new tokens");
    refused("--bandwidth 0", "--bandwidth must be above 0");
}

/// Decode finds what prefill has computed: only the last page is computed again.
#[test]
fn decode_starts_from_the_prompts_that_were_prefilled() {
    let shape = KnownShape {
        name: "tiny",
        vocab: 50,
        hidden: 32,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 8,
        ffn_width: 64,
        ..KnownShape::ALL[0]
    };
    let batch = 5;
    let words = "llm --prompt-tokens 64 --new-tokens 40".split_whitespace();
    let Typed { llm: args } = Typed::try_parse_from(words).expect("the command line is right");
    let defaults = EngineDefaults::measuring(batch, args.prompt_tokens, args.new_tokens, 16);
    let config = InferenceConfig {
        device: terrace_engine::DeviceChoice::Cpu,
        threads: Some(1),
        max_batch_size: defaults.max_batch_size,
        max_input_len: defaults.max_input_len,
        max_output_len: defaults.max_output_len,
        ..InferenceConfig::default()
    };
    let weights = WeightSource::Random(WeightFormat::F32);
    let setup = EngineSetup::new(shape.spec(), weights, &config, || {}).expect("it fits");
    let handle = EngineHandle::spawn(setup.engine);
    let engine = MeasuredEngine { handle, caches: setup.caches };
    let mut prompts = RandomPrompts::new(3, shape.vocab);
    for run in 1..=3 {
        Run::measure(&engine, &mut prompts, batch, &args).expect("it runs");
        let stats = engine.handle.stats();
        // All of them when they decode, and all but one in the mixed run, where that one prefills.
        let known = run * (batch + batch - 1) * 48;
        assert_eq!(stats.prefix_tokens_hit, known as u64, "run {run}");
        assert_eq!((stats.preemptions, stats.pages_free), (0, stats.pages_total));
    }
}
