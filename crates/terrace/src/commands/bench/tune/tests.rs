//! A step of a small model, and the table of made-up steps.

use clap::Parser;

use super::report::Measured;
use super::*;

#[derive(Parser)]
struct Typed {
    #[command(flatten)]
    args: TuneArgs,
}

fn parse(arguments: &str) -> Result<TuneArgs, clap::Error> {
    let words = arguments.split_whitespace();
    Typed::try_parse_from(std::iter::once("tune").chain(words)).map(|typed| typed.args)
}

#[test]
fn options_say_what_is_trained() {
    let args = parse("--lora-rank 4").unwrap();
    assert!(matches!(args.training(), Training::Lora(LoraOptions { rank: 4, .. })));
    assert_eq!(parse("--full").unwrap().training(), Training::Full);
    for wrong in ["--full --lora-rank 4", "--lora-rank 0", "--tokens 0", "--precision f16"] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn wrong_options_are_refused_before_a_model_is_fetched() {
    for (arguments, why) in [
        ("--model nowhere --tflops 0", "--tflops must be above 0"),
        ("--model nowhere --start-token-size 3", "start_token_size"),
        ("--model nowhere", "there is no such file or folder"),
    ] {
        let error = measure(&parse(arguments).unwrap()).unwrap_err();
        assert!(format!("{error:#}").contains(why), "{arguments}: {error:#}");
    }
}

#[test]
fn the_best_step_is_shown_with_what_ops_leave() {
    let step = |step_s: f64| StepRow {
        loss: 1.0,
        step_s,
        forward_s: 0.25 * step_s,
        head_s: 0.125 * step_s,
        backward_s: 0.5 * step_s,
        optimiser_s: 0.0,
        ops_s: [("project", 0.5 * step_s), ("gate", 0.25 * step_s)].into(),
    };
    let table = TuneReport::new(Measured {
        model: "small".into(),
        device: "cpu, 2 threads".into(),
        precision: "bf16",
        cache: "dense-default".into(),
        cache_lengths: vec![16],
        shape: [2, 16],
        trained: 10,
        lora_rank: Some(8),
        flops: 1e12,
        roofline_s: Some(1.0),
        device_bytes: Some(3 << 29),
        steps: vec![step(4.0), step(2.0), step(8.0)],
    });
    let table = table.to_string();
    for part in ["16.0 (8.0, 4.0)", "2.00 s", "0.50 s", "1.00 s, 50%", "project", "1000.0 ms"] {
        assert!(table.contains(part), "{part} in\n{table}");
    }
    let left = table.lines().find(|line| line.starts_with("between ops")).expect("a line");
    assert!(left.contains("500.0 ms") && left.contains("25.0%"), "{left}");
}
