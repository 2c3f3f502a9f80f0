//! Whether special tokens are left out of a decoded text.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecialTokens {
    Skip,
    Keep,
}
