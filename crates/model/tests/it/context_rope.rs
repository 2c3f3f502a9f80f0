//! Rotations for an expected length. `terrace selftest --golden-kv` holds them to golden tables.

use terrace_kernels::RopeStyle;
use terrace_model::golden::GoldenModel;
use terrace_model::{AttentionSpec, ContextRope, DecoderSpec, ModelConfig, RopeSpec, TrainedRope};

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

/// All of a decoder that its length changes.
#[test]
fn a_decoder_is_scaled_by_its_trained_length() {
    let folder = terrace_testkit::golden_set("llm").join("llama_plain");
    let case = GoldenModel::open(&folder, &folder.join("config.json")).expect("a golden model");
    let (spec, context) = (case.spec.clone(), case.spec.context_tokens);
    let same = spec.clone().scaled(context).expect("a known rotation");
    assert_eq!((&same.ropes, same.context_tokens), (&spec.ropes, context));
    assert_eq!(scales(&same), scales(&spec));
    let longer = spec.clone().scaled(4 * context).expect("a known rotation");
    assert_eq!(longer.context_tokens, 4 * context);
    for (longer, own) in scales(&longer).iter().zip(scales(&spec)) {
        let growth = longer / own;
        assert!((growth - (0.1 * 4f32.ln() + 1.0).powi(2)).abs() < 1e-6, "{growth}");
    }
    let [plain, scaled] = [&spec, &longer].map(|spec| &spec.ropes[0].inv_freq);
    // The slowest pair rotates less than once over the trained length, the fastest often.
    assert_eq!(scaled[0], plain[0]);
    let slowest = scaled.last().expect("pairs") * 4.0;
    assert!((slowest - plain.last().expect("pairs")).abs() < 1e-9, "{slowest}");
    let unknown = DecoderSpec { trained_rope: None, ..spec };
    assert!(unknown.scaled(4 * context).is_none());
}

/// Of attention in each layer.
fn scales(spec: &DecoderSpec) -> Vec<f32> {
    let scale = |attention: &AttentionSpec| {
        let AttentionSpec::GroupedQuery(attention) = attention;
        attention.scale
    };
    spec.layers.iter().map(|layer| scale(&layer.attention)).collect()
}

#[test]
fn a_rotation_that_follows_the_length_is_that_of_the_next_step() {
    let folder = terrace_testkit::golden_set("llm").join("llama_plain");
    let case = GoldenModel::open(&folder, &folder.join("config.json")).expect("a golden model");
    let (spec, context) = (case.spec.clone(), case.spec.context_tokens);
    let follows = spec.clone().following_length(3 * context).expect("a known rotation");
    assert_eq!((&follows.ropes, follows.context_tokens), (&spec.ropes, 3 * context));
    let rope = follows.dynamic_rope.expect("it follows the length");
    let step = context / 8;
    for tokens in 1..3 * context {
        let found = rope.context_for(tokens);
        assert!(tokens <= found && context <= found, "{tokens}: {found}");
        assert!(found == context || found < tokens + step, "{tokens}: {found}");
        // Whatever is not longer has the same.
        assert_eq!(rope.context_for(found), found);
    }
    let ContextRope { rope: short, attn_scale } = rope.rope(rope.context_for(context));
    assert_eq!(&short, &spec.ropes[0]);
    assert_eq!(vec![attn_scale; spec.layers.len()], scales(&spec));
    let unknown = DecoderSpec { trained_rope: None, ..spec };
    assert!(unknown.following_length(context).is_none());
}
