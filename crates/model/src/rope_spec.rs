//! How fast each pair of a head rotates with position, and how that is scaled for long contexts.
//!
//! The product of this file is a table of angles per position step, made once at load.

use std::f64::consts::PI;

use terrace_kernels::RopeStyle;

use crate::config::RopeSettings;
use crate::error::Error;

/// One rotation; layers that share it point at the same one.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeSpec {
    /// Radians per position of each pair; half as many as rotated elements.
    pub inv_freq: Vec<f32>,
    /// Cosine and sine are multiplied by this.
    pub scale: f32,
    pub style: RopeStyle,
}

impl RopeSpec {
    /// `rotary_dim` elements of each head are rotated; `context` is the model's longest position.
    pub fn new(
        settings: &RopeSettings<'_>,
        rotary_dim: usize,
        context: usize,
        style: RopeStyle,
    ) -> Result<Self, Error> {
        if rotary_dim == 0 || !rotary_dim.is_multiple_of(2) {
            return Err(Error::Config(format!("cannot rotate {rotary_dim} elements in pairs")));
        }
        let theta = settings.theta()?;
        let plain = plain_frequencies(theta, rotary_dim);
        let (inv_freq, scale) = match settings.kind() {
            "default" => (plain, 1.0),
            "linear" => (divided(&plain, settings.positive("factor")?), 1.0),
            "llama3" => (llama3(settings, &plain, context)?, 1.0),
            "yarn" => yarn(settings, &plain, theta, context)?,
            other => {
                return Err(Error::Unsupported(format!(
                    "rope scaling {other:?} (known: default, linear, llama3, yarn)"
                )));
            }
        };
        let inv_freq = inv_freq.into_iter().map(|freq| freq as f32).collect();
        Ok(RopeSpec { inv_freq, scale: scale as f32, style })
    }

    /// Without scaling: position times `theta` to the power of minus the pair's share.
    pub fn plain(theta: f64, rotary_dim: usize, style: RopeStyle) -> Self {
        let inv_freq = plain_frequencies(theta, rotary_dim).into_iter().map(|freq| freq as f32);
        RopeSpec { inv_freq: inv_freq.collect(), scale: 1.0, style }
    }

    /// Divides each frequency by its own factor (GGUF's `rope_freqs.weight`).
    pub fn divide_by(&mut self, factors: &[f32]) -> Result<(), Error> {
        if factors.len() != self.inv_freq.len() || factors.iter().any(|factor| *factor <= 0.0) {
            return Err(Error::Config(format!(
                "rope factors: {} given for {} pairs, all must be positive",
                factors.len(),
                self.inv_freq.len()
            )));
        }
        for (freq, factor) in self.inv_freq.iter_mut().zip(factors) {
            *freq /= factor;
        }
        Ok(())
    }
}

pub(crate) fn plain_frequencies(theta: f64, rotary_dim: usize) -> Vec<f64> {
    (0..rotary_dim).step_by(2).map(|i| theta.powf(-(i as f64) / rotary_dim as f64)).collect()
}

pub(crate) fn divided(frequencies: &[f64], factor: f64) -> Vec<f64> {
    frequencies.iter().map(|freq| freq / factor).collect()
}

/// Llama 3.1: slow pairs are scaled, fast ones kept, those between blended.
fn llama3(settings: &RopeSettings<'_>, plain: &[f64], context: usize) -> Result<Vec<f64>, Error> {
    let factor = settings.positive("factor")?;
    let low = settings.positive("low_freq_factor")?;
    let high = settings.positive("high_freq_factor")?;
    if high <= low {
        return Err(Error::Config(format!(
            "high_freq_factor is {high}, must exceed low_freq_factor {low}"
        )));
    }
    let original = original_context(settings, context)?;
    Ok(blended(plain, original, [low, high], factor))
}

/// Pairs that rotate fewer than `low` times over the original context are divided by the factor,
/// those that rotate more than `high` times are kept.
pub(crate) fn blended(
    plain: &[f64],
    original: f64,
    [low, high]: [f64; 2],
    factor: f64,
) -> Vec<f64> {
    let scaled = |&freq: &f64| {
        let rotations = original * freq / (2.0 * PI);
        let keep = ((rotations - low) / (high - low)).clamp(0.0, 1.0);
        (1.0 - keep) * freq / factor + keep * freq
    };
    plain.iter().map(scaled).collect()
}

/// YaRN: a ramp over the pairs between `beta_slow` and `beta_fast` rotations, and a wider softmax.
fn yarn(
    settings: &RopeSettings<'_>,
    plain: &[f64],
    theta: f64,
    context: usize,
) -> Result<(Vec<f64>, f64), Error> {
    let factor = settings.positive("factor")?;
    let original = original_context(settings, context)?;
    let beta_fast = settings.nested_number("beta_fast")?.unwrap_or(32.0);
    let beta_slow = settings.nested_number("beta_slow")?.unwrap_or(1.0);
    let dim = 2.0 * plain.len() as f64;
    // The pair that makes so many rotations over the original context.
    let pair_of =
        |rotations: f64| dim * (original / (rotations * 2.0 * PI)).ln() / (2.0 * theta.ln());
    let first = pair_of(beta_fast).floor().max(0.0);
    let mut last = pair_of(beta_slow).ceil().min(dim - 1.0);
    if first == last {
        last += 0.001;
    }
    let blended = |(i, freq): (usize, &f64)| {
        let slow = ((i as f64 - first) / (last - first)).clamp(0.0, 1.0);
        slow * freq / factor + (1.0 - slow) * freq
    };
    let frequencies = plain.iter().enumerate().map(blended).collect();
    Ok((frequencies, yarn_scale(settings, factor)?))
}

fn yarn_scale(settings: &RopeSettings<'_>, factor: f64) -> Result<f64, Error> {
    if let Some(given) = settings.nested_number("attention_factor")? {
        return Ok(given);
    }
    let grown = |by: f64| if factor > 1.0 { 0.1 * by * factor.ln() + 1.0 } else { 1.0 };
    let mscale = settings.nested_number("mscale")?.filter(|mscale| *mscale != 0.0);
    let all_dim = settings.nested_number("mscale_all_dim")?.filter(|mscale| *mscale != 0.0);
    Ok(match (mscale, all_dim) {
        (Some(mscale), Some(all_dim)) => grown(mscale) / grown(all_dim),
        _ => grown(1.0),
    })
}

pub(crate) fn original_context(settings: &RopeSettings<'_>, context: usize) -> Result<f64, Error> {
    match settings.nested_number("original_max_position_embeddings")? {
        Some(_) => settings.positive("original_max_position_embeddings"),
        None => Ok(context as f64),
    }
}
