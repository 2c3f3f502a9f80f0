//! What tells one checkpoint from another.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ModelIdentity {
    /// Of all that layers compute with, the embedding tables left out.
    pub layers: [u8; 32],
    /// Of all files, tables included; where a parameter server has the tables, of these.
    pub tables: [u8; 32],
}
