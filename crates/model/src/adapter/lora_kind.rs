//! The kinds of branches.

/// How a branch `scale b a x` becomes a part of its product `w x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoraKind {
    /// `w x + scale b a x`
    Default,
    /// `w x + norm(scale b a x)`, a root-mean-square norm of each product's branch.
    RmsNorm,
    /// Rows of `w + scale b a` keep their direction and get a trained length (DoRA).
    Dora,
}

impl LoraKind {
    pub const fn name(self) -> &'static str {
        match self {
            LoraKind::Default => "default",
            LoraKind::RmsNorm => "rms_norm",
            LoraKind::Dora => "dora",
        }
    }
}
