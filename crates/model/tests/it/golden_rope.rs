//! Rotations for long contexts against the original's tables and rotated vectors.

use serde_json::json;
use terrace_kernels::RopeStyle;
use terrace_model::golden::GoldenCase;
use terrace_model::{ContextRope, DecoderSpec, ModelConfig, RopeSpec, TrainedRope};
use terrace_testkit::GoldenKv;

/// Frequencies are f32 and may be rounded otherwise by one bit, or two where they are blended.
fn slack(angle: f32) -> f32 {
    1e-6 + 2.0 * f32::EPSILON * angle
}

#[test]
fn golden_yarn() {
    for case in GoldenKv::of_kind("yarn") {
        let yarn = trained(&case).yarn(case.count("context_width"));
        check(&case, &yarn);
        check_rotated(&case, &yarn.rope);
    }
}

#[test]
fn golden_linear() {
    for case in GoldenKv::of_kind("linear") {
        check(&case, &trained(&case).linear(case.count("context_width")));
    }
}

/// A model's own stretching, which is the same whatever comes.
#[test]
fn golden_adjusted() {
    for case in GoldenKv::of_kind("adjusted") {
        let dim = rotary_dim(&case);
        let config = config(&case);
        let context = case.count("block_size");
        let rope = RopeSpec::new(&config.rope_settings(), dim, context, RopeStyle::Halves);
        let attn_scale = 1.0 / (case.count("head_size") as f32).sqrt();
        check(&case, &ContextRope { rope: rope.expect("a rotation"), attn_scale });
    }
}

#[test]
fn a_context_within_the_trained_one_changes_nothing() {
    let config = ModelConfig::from_json(r#"{"rope_theta": 10000.0}"#).expect("a config");
    let trained =
        TrainedRope::new(&config.rope_settings(), 16, 16, 64, RopeStyle::Halves).expect("a rope");
    let plain = RopeSpec::plain(10_000.0, 16, RopeStyle::Halves);
    for tokens in [1, 64] {
        for rope in [trained.yarn(tokens), trained.linear(tokens)] {
            assert_eq!(rope.attn_scale, 0.25);
            for (got, want) in rope.rope.inv_freq.iter().zip(&plain.inv_freq) {
                assert!((got - want).abs() <= want * 1e-6, "{got}, wanted {want}");
            }
        }
    }
    assert!(TrainedRope::new(&config.rope_settings(), 18, 16, 64, RopeStyle::Halves).is_err());
    assert!(TrainedRope::new(&config.rope_settings(), 15, 16, 64, RopeStyle::Halves).is_err());
}

fn trained(case: &GoldenKv) -> TrainedRope {
    let (dim, head_dim) = (rotary_dim(case), case.count("head_size"));
    let context = case.count("block_size");
    let config = config(case);
    TrainedRope::new(&config.rope_settings(), dim, head_dim, context, RopeStyle::Halves)
        .unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

fn rotary_dim(case: &GoldenKv) -> usize {
    case.tensor("cos").shape[1]
}

/// The case's settings as a model's file has them.
fn config(case: &GoldenKv) -> ModelConfig {
    let adjustments = &case.about["rope_adjustments"];
    let scaling = adjustments.as_object().map(|given| {
        json!({
            "rope_type": "llama3",
            "factor": given["factor"],
            "low_freq_factor": given["low_freq_factor"],
            "high_freq_factor": given["high_freq_factor"],
            "original_max_position_embeddings": given["original_max_seq_len"],
        })
    });
    let config = json!({ "rope_theta": case.number("rope_base"), "rope_scaling": scaling });
    ModelConfig::from_json(&config.to_string()).expect("a config")
}

fn check(case: &GoldenKv, got: &ContextRope) {
    let scale = case.number("sdpa_scale_factor") as f32;
    assert!((got.attn_scale - scale).abs() < 1e-6, "{}: {}", case.name, got.attn_scale);
    assert_eq!(got.rope.scale, 1.0);
    let dim = rotary_dim(case);
    for (name, of) in [("cos", f32::cos as fn(f32) -> f32), ("sin", f32::sin)] {
        for (position, row) in case.f32(name).chunks_exact(dim).enumerate() {
            for (i, want) in row.iter().enumerate() {
                let angle = position as f32 * got.rope.inv_freq[i % (dim / 2)];
                let got = of(angle);
                let close = (got - want).abs() <= slack(angle);
                assert!(close, "{} {name} {position} {i}: {got}, wanted {want}", case.name);
            }
        }
    }
}

/// x: `[.., tokens, head_dim]`, from position `input_pos` on.
fn check_rotated(case: &GoldenKv, rope: &RopeSpec) {
    let [.., tokens, dim] = case.tensor("x").shape[..] else { panic!("x has rows") };
    let pairs = rope.inv_freq.len();
    let first = case.count("input_pos");
    let rows = case.f32("x").chunks_exact(dim).zip(case.f32("x_rotated").chunks_exact(dim));
    for (i, (x, want)) in rows.enumerate() {
        for (d, want) in want.iter().enumerate() {
            let angle = (first + i % tokens) as f32 * rope.inv_freq[d % pairs];
            let (sin, cos) = angle.sin_cos();
            let got = match d / pairs {
                0 => x[d] * cos - x[d + pairs] * sin,
                1 => x[d] * cos + x[d - pairs] * sin,
                _ => x[d],
            };
            let size = x.iter().fold(1.0, |most: f32, x| most.max(x.abs()));
            assert!(
                (got - want).abs() <= 2.0 * size * slack(angle),
                "{} {i} {d}: {got}, wanted {want}",
                case.name
            );
        }
    }
}

/// All of a decoder that its length changes.
#[test]
fn a_decoder_is_stretched_by_its_trained_length() {
    let folder = terrace_testkit::golden_set("llm").join("llama_plain");
    let case = GoldenCase::open(&folder, &folder.join("config.json")).expect("a golden model");
    let (spec, context) = (case.spec.clone(), case.spec.context_tokens);
    let same = spec.clone().stretched(context).expect("a known rotation");
    assert_eq!((&same.ropes, same.context_tokens), (&spec.ropes, context));
    assert_eq!(same.layers[0].attention.scale, spec.layers[0].attention.scale);
    let longer = spec.clone().stretched(4 * context).expect("a known rotation");
    assert_eq!(longer.context_tokens, 4 * context);
    for layer in &longer.layers {
        let growth = layer.attention.scale / spec.layers[0].attention.scale;
        assert!((growth - (0.1 * 4f32.ln() + 1.0).powi(2)).abs() < 1e-6, "{growth}");
    }
    let [plain, stretched] = [&spec, &longer].map(|spec| &spec.ropes[0].inv_freq);
    // The slowest pair turns less than once over the trained length, the fastest often.
    assert_eq!(stretched[0], plain[0]);
    let slowest = stretched.last().expect("pairs") * 4.0;
    assert!((slowest - plain.last().expect("pairs")).abs() < 1e-9, "{slowest}");
    let unknown = DecoderSpec { trained_rope: None, ..spec };
    assert!(unknown.stretched(4 * context).is_none());
}
