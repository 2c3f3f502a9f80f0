//! A fixed vector, and a change of every field.

use terrace_kernels::WeightFormat;

use super::*;
use crate::adapter::{Adapter, AdapterBranch, BranchVector, BranchedProduct, LayerProduct};
use crate::config::ModelConfig;
use crate::context_rope::TrainedRope;
use crate::dynamic_rope::DynamicRope;
use crate::fingerprint::{ModelFingerprint, WeightsHash};

fn attention(window: Option<usize>) -> GroupedQuerySpec {
    GroupedQuerySpec { heads: 4, kv_heads: 2, head_dim: 8, scale: 0.5, rope: 0, window }
}

fn spec() -> DecoderSpec {
    let layer = |window| LayerSpec {
        attention: AttentionSpec::GroupedQuery(attention(window)),
        ffn: FfnSpec::Gated(GatedSpec { width: 16, activation: Activation::Silu }),
    };
    DecoderSpec {
        vocab: 258,
        hidden: 32,
        context_tokens: 64,
        norm_eps: 0.25,
        ropes: vec![RopeSpec { inv_freq: vec![1.0, 2.0], scale: 1.0, style: RopeStyle::Halves }],
        trained_rope: None,
        dynamic_rope: None,
        layers: vec![layer(None), layer(Some(6))],
        tied_head: true,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Each line is a point of the module comment.
#[test]
fn a_small_decoder_has_the_bytes_that_are_documented() {
    let layer_head = "01 0400000000000000 0200000000000000 0800000000000000 0000003f \
                      0000000000000000";
    let ffn = "01 1000000000000000 00";
    let wanted = [
        "0100000000000000",
        "0201000000000000 2000000000000000 0000803e 01",
        "0100000000000000 00 0000803f 0200000000000000 0000803f 00000040",
        "00",
        "0200000000000000",
        layer_head,
        "00",
        ffn,
        layer_head,
        "01 0600000000000000",
        ffn,
    ];
    assert_eq!(hex(&bytes(&spec())), wanted.concat().replace(' ', ""));
}

#[test]
fn the_fingerprint_of_a_small_decoder_is_fixed() {
    let weights = WeightsHash::of_random(WeightFormat::Bf16);
    let fingerprint = ModelFingerprint::new(&weights, None, &spec());
    assert_eq!(hex(weights.as_bytes()), WEIGHTS);
    assert_eq!(hex(fingerprint.as_bytes()), FINGERPRINT);
}

/// As any SHA-256 program gives them for the bytes above.
const WEIGHTS: &str = "7a24c5274c61b49260a4056ddfb65fa4987a4f62db4d99b81ea1c7fb698a0992";
const FINGERPRINT: &str = "59f1598827609c6eb2b36dfb87fa00e646f00bd730cd2a6a9578df6ed1c178cc";

#[test]
fn the_fingerprint_with_an_adapter_is_fixed() {
    let branch = AdapterBranch {
        rank: 1,
        alpha: 0.75,
        a: vec![0.5; 32],
        b: vec![0.25; 16],
        vector: BranchVector::Lengths(vec![2.0; 16]),
    };
    let branches = [(BranchedProduct::Layer(1, LayerProduct::Key), branch)];
    let adapter = Adapter::new("small".into(), None, &spec(), branches).expect("it fits");
    let weights = WeightsHash::of_random(WeightFormat::Bf16);
    let fingerprint = ModelFingerprint::new(&weights, Some(&adapter.hash()), &spec());
    assert_eq!(hex(adapter.hash().as_bytes()), ADAPTER);
    assert_eq!(hex(fingerprint.as_bytes()), ADAPTED);
}

/// As above, for the bytes that `adapter_hash.rs` describes.
const ADAPTER: &str = "c095eda714de108ea5d5801719b9267435403bd87d24424bc0a805e6047995ec";
const ADAPTED: &str = "62b03b7aed7faf5e567a43eafb4f910b161e1612090502630135ac547bbf11e5";

fn dynamic_rope(theta: f64, context: usize) -> Option<DynamicRope> {
    let config = ModelConfig::from_json(&format!(r#"{{"rope_theta": {theta}}}"#)).unwrap();
    let settings = config.rope_settings();
    Some(DynamicRope::new(TrainedRope::new(&settings, 8, 8, context, RopeStyle::Halves).unwrap()))
}

type Change = fn(&mut DecoderSpec);

fn first_attention(spec: &mut DecoderSpec) -> &mut GroupedQuerySpec {
    let AttentionSpec::GroupedQuery(attention) = &mut spec.layers[0].attention;
    attention
}

fn first_ffn(spec: &mut DecoderSpec) -> &mut GatedSpec {
    let FfnSpec::Gated(ffn) = &mut spec.layers[0].ffn;
    ffn
}

#[test]
fn every_field_that_changes_numbers_changes_the_fingerprint() {
    let changes: [Change; 22] = [
        |_| {},
        |spec| spec.vocab += 1,
        |spec| spec.hidden += 1,
        |spec| spec.norm_eps *= 2.0,
        |spec| spec.tied_head = false,
        |spec| spec.ropes[0].inv_freq[1] *= 2.0,
        |spec| spec.ropes[0].inv_freq.push(4.0),
        |spec| spec.ropes[0].scale *= 2.0,
        |spec| spec.ropes[0].style = RopeStyle::Interleaved,
        |spec| spec.ropes.push(spec.ropes[0].clone()),
        |spec| spec.dynamic_rope = dynamic_rope(1e4, 64),
        |spec| spec.dynamic_rope = dynamic_rope(1e5, 64),
        |spec| spec.dynamic_rope = dynamic_rope(1e4, 128),
        |spec| spec.layers.truncate(1),
        |spec| first_attention(spec).heads *= 2,
        |spec| first_attention(spec).kv_heads *= 2,
        |spec| first_attention(spec).head_dim *= 2,
        |spec| first_attention(spec).scale *= 2.0,
        |spec| first_attention(spec).rope += 1,
        |spec| first_attention(spec).window = Some(6),
        |spec| first_ffn(spec).width *= 2,
        |spec| first_ffn(spec).activation = Activation::GeluTanh,
    ];
    let weights = WeightsHash::of_random(WeightFormat::Bf16);
    let fingerprints: Vec<ModelFingerprint> = changes
        .iter()
        .map(|change| {
            let mut spec = spec();
            change(&mut spec);
            ModelFingerprint::new(&weights, None, &spec)
        })
        .collect();
    for (i, fingerprint) in fingerprints.iter().enumerate() {
        assert!(!fingerprints[..i].contains(fingerprint), "change {i} is not seen");
    }
    let others = [WeightFormat::F32, WeightFormat::Q8_0].map(WeightsHash::of_random);
    for weights in others {
        assert!(!fingerprints.contains(&ModelFingerprint::new(&weights, None, &spec())));
    }
}

#[test]
fn what_changes_no_number_changes_no_byte() {
    let mut longer = spec();
    longer.context_tokens *= 2;
    assert_eq!(bytes(&longer), bytes(&spec()));
}
