//! What became of an adapter when its decoder was placed.

use std::fmt;

use crate::adapter::{AdapterHash, LoraKind};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedAdapter {
    pub name: String,
    pub kind: LoraKind,
    pub hash: AdapterHash,
    /// Products whose weights its branches became a part of.
    pub merged: usize,
    /// Products whose branches are computed beside them.
    pub beside: usize,
}

/// For people.
impl fmt::Display for PlacedAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlacedAdapter { name, kind, hash: _, merged, beside } = self;
        let products = merged + beside;
        write!(f, "{name} ({}) on {products} products, ", kind.name())?;
        match (merged, beside) {
            (_, 0) => f.write_str("merged into the weights"),
            (0, _) => f.write_str("computed beside the weights"),
            _ => write!(f, "merged into the weights of {merged}, computed beside {beside}"),
        }
    }
}
