//! A rotation for sequences of an expected length, beyond what a model was trained for.
//!
//! Unlike [`RopeSpec::new`], which follows a model's own configuration, this scales by what a
//! user expects: by the quotient of that length and the trained one, and never shrinks. It is
//! awslabs/keys_values' form of YaRN: cosine and sine keep their size, attention's scale grows.

use terrace_kernels::RopeStyle;

use crate::config::RopeSettings;
use crate::error::Error;
use crate::rope_spec::{RopeSpec, blended, divided, original_context, plain_frequencies};

/// What scaling starts from.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainedRope {
    pub(crate) theta: f64,
    pub(crate) rotary_dim: usize,
    pub(crate) head_dim: usize,
    pub(crate) trained_tokens: f64,
    /// Pairs that rotate fewer times over the trained length are scaled, those that rotate more
    /// often than the second are kept.
    pub(crate) rotations: [f64; 2],
    pub(crate) style: RopeStyle,
    /// Whether the model's own settings scale it already.
    pub(crate) is_scaled: bool,
}

/// A rotation and the scale of attention that goes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextRope {
    pub rope: RopeSpec,
    pub attn_scale: f32,
}

impl TrainedRope {
    /// `rotary_dim` of the `head_dim` elements of a head are rotated; `context` is the model's
    /// longest position, unless its settings name the one it was trained with.
    pub fn new(
        settings: &RopeSettings<'_>,
        rotary_dim: usize,
        head_dim: usize,
        context: usize,
        style: RopeStyle,
    ) -> Result<Self, Error> {
        let low = settings.nested_number("low_freq_factor")?.unwrap_or(1.0);
        let high = settings.nested_number("high_freq_factor")?.unwrap_or(32.0);
        if rotary_dim == 0 || !rotary_dim.is_multiple_of(2) || head_dim < rotary_dim {
            let what = format!("cannot rotate {rotary_dim} of {head_dim} elements in pairs");
            return Err(Error::Config(what));
        }
        if high <= low {
            let what = format!("high_freq_factor is {high}, must exceed low_freq_factor {low}");
            return Err(Error::Config(what));
        }
        let trained_tokens = original_context(settings, context)?;
        let (theta, rotations) = (settings.theta()?, [low, high]);
        let is_scaled = settings.kind() != "default";
        Ok(TrainedRope { theta, rotary_dim, head_dim, trained_tokens, rotations, style, is_scaled })
    }

    /// The same, of a model whose files scale it otherwise than by settings.
    pub fn already_scaled(self) -> Self {
        TrainedRope { is_scaled: true, ..self }
    }

    pub fn is_scaled(&self) -> bool {
        self.is_scaled
    }

    /// Tokens of the sequences it was trained with.
    pub fn trained_tokens(&self) -> usize {
        self.trained_tokens as usize
    }

    /// Slow pairs are scaled, fast ones kept, those between blended; attention is scaled up to
    /// make up for its more even scores.
    pub fn yarn(&self, context_tokens: usize) -> ContextRope {
        let factor = self.factor(context_tokens);
        let plain = plain_frequencies(self.theta, self.rotary_dim);
        let growth = 0.1 * factor.ln() + 1.0;
        self.context_rope(
            blended(&plain, self.trained_tokens, self.rotations, factor),
            growth.powi(2),
        )
    }

    /// All pairs are scaled alike.
    pub fn linear(&self, context_tokens: usize) -> ContextRope {
        let plain = plain_frequencies(self.theta, self.rotary_dim);
        self.context_rope(divided(&plain, self.factor(context_tokens)), 1.0)
    }

    /// How many times longer than trained the context is; 1 where it is not.
    fn factor(&self, context_tokens: usize) -> f64 {
        (context_tokens as f64 / self.trained_tokens).max(1.0)
    }

    fn context_rope(&self, inv_freq: Vec<f64>, scale_growth: f64) -> ContextRope {
        let inv_freq = inv_freq.into_iter().map(|freq| freq as f32).collect();
        ContextRope {
            rope: RopeSpec { inv_freq, scale: 1.0, style: self.style },
            attn_scale: (scale_growth / (self.head_dim as f64).sqrt()) as f32,
        }
    }
}
