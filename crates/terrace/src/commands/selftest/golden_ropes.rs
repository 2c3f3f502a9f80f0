//! Rotations for long contexts against the original's tables and rotated vectors.
//!
//! Frequencies and attention's scale are made by the host; cosine and sine are the device's.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::json;
use terrace_cache::golden::{Placed, f32s};
use terrace_device::DType;
use terrace_golden::{GoldenCase, GoldenFolder, SetFindings};
use terrace_kernels::{Ops, RopeAnglesArgs, RopeFrequencies, RopeStyle};
use terrace_model::{ContextRope, ModelConfig, RopeSpec, TrainedRope};

/// Frequencies are f32 and may be rounded otherwise by one bit, or two where they are blended,
/// which is so much of the largest angle.
fn tolerance(positions: usize) -> f32 {
    1e-6 + 2.0 * f32::EPSILON * positions as f32
}

#[derive(Clone, Debug, Deserialize)]
struct RopeCase {
    kind: String,
    block_size: usize,
    context_width: usize,
    head_size: usize,
    rope_base: f64,
    rope_adjustments: Option<Adjustments>,
    sdpa_scale_factor: f32,
    /// Position of the first rotated row, where there are some.
    input_pos: Option<usize>,
}

#[derive(Clone, Debug, Deserialize)]
struct Adjustments {
    factor: f64,
    low_freq_factor: f64,
    high_freq_factor: f64,
    original_max_seq_len: usize,
}

pub fn check(folder: &GoldenFolder, ops: &Ops) -> Result<SetFindings> {
    let mut findings = SetFindings::new("rope", tolerance(0));
    for kind in ["yarn", "linear", "adjusted"] {
        for case in folder.cases::<RopeCase>(kind)? {
            findings.cases += 1;
            check_case(&case, ops, &mut findings).with_context(|| case.name.clone())?;
        }
    }
    Ok(findings)
}

fn check_case(case: &GoldenCase<RopeCase>, ops: &Ops, findings: &mut SetFindings) -> Result<()> {
    let [positions, dim] = case.tensors.dims("cos")?;
    findings.tolerance = findings.tolerance.max(tolerance(positions));
    let found = case.about.rope(dim)?;
    let scale = [case.about.sdpa_scale_factor];
    findings.compare(&[found.attn_scale], &scale, || format!("{} scale", case.name));
    let [cos, sin] = angles(ops, &found.rope, positions)?;
    for (name, found) in [("cos", &cos), ("sin", &sin)] {
        // Both halves of a head turn by the same angles.
        let halves = found.chunks_exact(dim / 2).flat_map(|row| [row, row].concat());
        let wanted = case.tensors.f32(name, [positions, dim])?;
        findings.compare(&halves.collect::<Vec<_>>(), wanted, || format!("{} {name}", case.name));
    }
    let Some(first) = case.about.input_pos else { return Ok(()) };
    let shape: [usize; 4] = case.tensors.dims("x")?;
    let [.., tokens, width] = shape;
    let rows = case.tensors.f32("x", shape)?.chunks_exact(width).enumerate();
    let rerotated = rows.flat_map(|(row, x)| {
        let at = (first + row % tokens) * dim / 2;
        rerotated(x, &cos[at..at + dim / 2], &sin[at..at + dim / 2])
    });
    let wanted = case.tensors.f32("x_rotated", shape)?;
    findings.compare(&rerotated.collect::<Vec<_>>(), wanted, || format!("{} rows", case.name));
    Ok(())
}

impl RopeCase {
    /// The rotation of so many elements of a head, as a model's file asks for it.
    fn rope(&self, dim: usize) -> Result<ContextRope> {
        let scaling = self.rope_adjustments.as_ref().map(|given| {
            json!({
                "rope_type": "llama3",
                "factor": given.factor,
                "low_freq_factor": given.low_freq_factor,
                "high_freq_factor": given.high_freq_factor,
                "original_max_position_embeddings": given.original_max_seq_len,
            })
        });
        let config = json!({ "rope_theta": self.rope_base, "rope_scaling": scaling });
        let config = ModelConfig::from_json(&config.to_string())?;
        let (settings, style) = (config.rope_settings(), RopeStyle::Halves);
        let (head, context) = (self.head_size, self.block_size);
        let trained = TrainedRope::new(&settings, dim, head, context, style)?;
        Ok(match self.kind.as_str() {
            "yarn" => trained.yarn(self.context_width),
            "linear" => trained.linear(self.context_width),
            // A model's own scaling, which is the same whatever comes.
            _ => ContextRope {
                rope: RopeSpec::new(&settings, dim, context, style)?,
                attn_scale: 1.0 / (head as f32).sqrt(),
            },
        })
    }
}

/// Cosine and sine of the first positions, `[positions, pairs]`, as the device has them.
fn angles(ops: &Ops, rope: &RopeSpec, positions: usize) -> Result<[Vec<f32>; 2]> {
    let (device, pairs) = (ops.device(), rope.inv_freq.len());
    let counted: Vec<i32> = (0..positions as i32).collect();
    let counted = Placed::of(&device, &counted, [positions])?;
    let frequencies = ops.place_vector(&rope.inv_freq)?;
    let mut cos = Placed::poisoned(&device, DType::F32, [positions, pairs])?;
    let mut sin = Placed::poisoned(&device, DType::F32, [positions, pairs])?;
    ops.rope_angles(RopeAnglesArgs {
        positions: counted.view(),
        frequencies: RopeFrequencies::of_all(&frequencies),
        scale: rope.scale,
        cos: cos.view_mut(),
        sin: sin.view_mut(),
    });
    Ok([f32s(&cos.bytes()?), f32s(&sin.bytes()?)])
}

/// x: one head, of which the first elements turn
fn rerotated(x: &[f32], cos: &[f32], sin: &[f32]) -> Vec<f32> {
    let pairs = cos.len();
    let element = |d: usize| match d / pairs {
        0 => x[d] * cos[d] - x[d + pairs] * sin[d],
        1 => x[d] * cos[d - pairs] + x[d - pairs] * sin[d - pairs],
        _ => x[d],
    };
    (0..x.len()).map(element).collect()
}
