//! Whether special tokens are left out of a decoded text.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpecialTokens {
    #[default]
    Skip,
    Keep,
}
