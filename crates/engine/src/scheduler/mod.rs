//! Who runs when.

mod rank;

pub(crate) use rank::Rank;
