//! Decoders whose layers differ: in heads, widths and windows.

mod plain_decoder;

use terrace_device::DType;
use terrace_kernels::random::SplitMix;
use terrace_kernels::{Activation, Compute, CpuLevel, CpuOptions, Ops, RopeStyle};
use terrace_model::golden::PagedRun;
use terrace_model::{
    AttentionSpec, Decoder, DecoderSpec, FfnSpec, GatedSpec, GroupedQuerySpec, LayerGroup,
    LayerSpec, RopeSpec,
};

const VOCAB: usize = 40;

/// Heads, kv heads, width of heads, width of the feed-forward block, and the window.
type Widths = (usize, usize, usize, usize, Option<usize>);

fn spec(layers: &[Widths]) -> DecoderSpec {
    let mut head_dims: Vec<usize> = layers.iter().map(|layer| layer.2).collect();
    head_dims.sort_unstable();
    head_dims.dedup();
    let rope = |&dim: &usize| RopeSpec::plain(10_000.0, dim, RopeStyle::Halves);
    let layer = |&(heads, kv_heads, head_dim, width, window): &Widths| LayerSpec {
        attention: AttentionSpec::GroupedQuery(GroupedQuerySpec {
            heads,
            kv_heads,
            head_dim,
            scale: 1.0 / (head_dim as f32).sqrt(),
            rope: head_dims.iter().position(|dim| *dim == head_dim).expect("it is listed"),
            window,
        }),
        ffn: FfnSpec::Gated(GatedSpec { width, activation: Activation::Silu }),
    };
    DecoderSpec {
        vocab: VOCAB,
        hidden: 32,
        context_tokens: 256,
        norm_eps: 1e-5,
        ropes: head_dims.iter().map(rope).collect(),
        trained_rope: None,
        dynamic_rope: None,
        layers: layers.iter().map(layer).collect(),
        tied_head: true,
    }
}

/// Through pages, in chunks, at every level of the CPU: the logits of plain loops.
#[track_caller]
fn check(layers: &[Widths]) {
    let spec = spec(layers);
    spec.check().expect("a sound decoder");
    let tensors = plain_decoder::random_tensors(&spec, 7);
    let mut random = SplitMix::new(11);
    let text: Vec<u32> = (0..45).map(|_| random.below(VOCAB) as u32).collect();
    let wanted = plain_decoder::logits(&spec, &tensors, &text);
    for level in CpuLevel::available() {
        let options = CpuOptions { threads: 2, level: Some(level), compute: Compute::F32 };
        let ops = Ops::cpu(options).expect("a level");
        let decoder =
            Decoder::place(spec.clone(), tensors.clone(), &ops, || {}).expect("the CPU takes all");
        for (block_tokens, chunk) in [(1, 7), (4, usize::MAX), (16, 1), (16, 20)] {
            let groups = spec.kv_groups(block_tokens, DType::F32);
            let (length, prompts) = (text.len() + 1, vec![text.len() / 2]);
            let mut run =
                PagedRun::new(&decoder, &ops, &groups, length, prompts).expect("a few pages");
            let mut found = Vec::new();
            while found.len() < text.len() {
                let rows = run.step(std::slice::from_ref(&text), chunk, |_| length);
                found.extend(rows.expect("a step").expect("there are tokens left"));
            }
            for (_, position, row) in found {
                for (found, wanted) in row.iter().zip(&wanted[position]) {
                    let difference = (f64::from(*found) - wanted).abs();
                    assert!(
                        difference < 2e-4,
                        "{} position {position}, blocks of {block_tokens}, chunks of {chunk}: \
                         {found} for {wanted}",
                        level.name()
                    );
                }
            }
        }
    }
}

#[test]
fn layers_of_one_kind_compute_as_plain_loops() {
    check(&[(4, 2, 8, 48, None); 2]);
}

#[test]
fn layers_of_different_widths_compute_as_plain_loops() {
    check(&[
        (4, 2, 8, 48, None),
        (2, 1, 16, 24, None),
        (6, 6, 8, 64, None),
        (4, 2, 8, 16, None),
        (8, 2, 16, 96, Some(5)),
    ]);
}

#[test]
fn windowed_and_full_layers_in_turn_compute_as_plain_loops() {
    let (full, windowed) = ((4, 2, 8, 48, None), (4, 2, 8, 48, Some(6)));
    check(&[windowed, full, windowed, full, windowed]);
}

#[test]
fn layers_alike_are_a_group_and_all_pages_have_the_same_bytes() {
    let wide = (4, 2, 8, 48, None);
    let spec = spec(&[wide, (4, 2, 8, 16, Some(6)), wide, (2, 1, 16, 48, None), wide]);
    let groups = spec.kv_groups(16, DType::Bf16);
    let layers: Vec<&[usize]> = groups.iter().map(|group| &group.layers[..]).collect();
    // The width of the feed-forward block is no matter of the cache.
    assert_eq!(layers, [&[0, 2, 4][..], &[1], &[3]]);
    let windows: Vec<Option<usize>> = groups.iter().map(|group| group.window).collect();
    assert_eq!(windows, [None, Some(6), None]);
    let page_tokens: Vec<usize> = groups.iter().map(|group| group.layout.page_tokens).collect();
    assert_eq!(page_tokens, [16, 48, 48]);
    assert_eq!(LayerGroup::page_bytes(&groups), 16 * 3 * 2 * (2 * 8) * 2);
    for group in &groups {
        assert_eq!(group.layout.layers, group.layers.len());
        assert!(group.layout.page_bytes() <= LayerGroup::page_bytes(&groups));
    }
}

#[test]
fn a_layer_wider_than_the_first_is_seen() {
    let too_wide = Ops::MAX_COLUMNS + 1;
    let error = spec(&[(4, 2, 8, 48, None), (4, 2, 8, too_wide, None)]).check();
    let error = error.expect_err("no product is that wide").to_string();
    assert!(error.contains(&too_wide.to_string()), "{error}");
}
