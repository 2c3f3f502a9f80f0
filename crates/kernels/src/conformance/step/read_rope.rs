//! Keys rotated on read, held to keys that were rotated before they were stored.

use super::slot_layer::Layer;
use crate::conformance::report::Report;
use crate::conformance::slot_case::SlotCase;
use crate::elementwise::rope::RopeStyle;
use crate::elementwise::rope::reference::{rotate_halves, rotate_interleaved};
use crate::elementwise::rope_angles::reference::angles;
use crate::ops::Ops;
use crate::pages::row_format::RowFormat;
use crate::random::SplitMix;

/// A random layer whose sequences are each scaled by another length.
pub(super) fn layer(ops: &Ops, case: &SlotCase, random: &mut SplitMix) -> Layer {
    let mut layer = Layer::new(ops, case, random);
    let pairs = layer.pairs();
    let (mut inv_freqs, mut scales) = (Vec::new(), Vec::new());
    for _ in &case.spec.seqs {
        let factor = 1.0 + random.below(8) as f32;
        let slower = |pair: usize| 10_000f32.powf(-(pair as f32) / pairs as f32);
        inv_freqs.extend((0..pairs).map(|pair| slower(pair) / factor));
        scales.push(layer.scale * (0.1 * factor.ln() + 1.0).powi(2));
    }
    layer.rotate(case, &inv_freqs);
    layer.read_rope = Some([inv_freqs, scales]);
    layer
}

/// Where keys are f32 it is the same when they were rotated before, with the scale that all
/// sequences share.
pub(super) fn check_rotated_before(
    plain: &Ops,
    ops: &Ops,
    case: &SlotCase,
    layer: &Layer,
    report: &mut Report,
) {
    let Some([inv_freqs, scales]) = &layer.read_rope else { return };
    if case.spec.layout.keys != RowFormat::F32 {
        return;
    }
    let pairs = inv_freqs.len() / scales.len();
    let rerotated = case.with_keys(layer.layer, |seq, position, key| {
        let [mut cos, mut sin] = [vec![0.0; pairs], vec![0.0; pairs]];
        angles(position, &inv_freqs[seq * pairs..][..pairs], 1.0, &mut cos, &mut sin);
        match layer.style {
            RopeStyle::Halves => rotate_halves(key, &cos, &sin),
            RopeStyle::Interleaved => rotate_interleaved(key, &cos, &sin),
        }
    });
    let [mut before, mut when_read] = [layer.clone(), layer.clone()];
    before.read_rope = None;
    when_read.read_rope = Some([inv_freqs.clone(), vec![layer.scale; scales.len()]]);
    let (want, _) = before.attend(plain, &rerotated);
    let (got, _) = when_read.attend(ops, case);
    let name = format!("rerotated before, {}", layer.name(case));
    report.compare("attend_slots", name, layer.tolerance(ops), &got, &want);
}
