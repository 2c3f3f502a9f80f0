//! The content of an adapter as 32 bytes, by which keys and values that it changed are known.
//!
//! `SHA-256("terrace adapter 1" · kind · branches)`, counts and lengths as u64, numbers as f32,
//! all little-endian:
//!
//! - kind: one byte, 0 for default, 1 for rms_norm, 2 for dora;
//! - of each branch, in the decoder's order: its product's name with its length in front, rank,
//!   scale, then a, b and, of kinds that have one, the vector, each with its length in front.
//!
//! Numbers are those that are computed with: in which type a file stores them does not matter.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::adapter_branch::AdapterBranch;
use super::branched_product::BranchedProduct;
use super::lora_kind::LoraKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdapterHash([u8; 32]);

impl AdapterHash {
    pub(super) fn of(kind: LoraKind, branches: &BTreeMap<BranchedProduct, AdapterBranch>) -> Self {
        let mut hash = Sha256::new_with_prefix(b"terrace adapter 1");
        hash.update([match kind {
            LoraKind::Default => 0,
            LoraKind::RmsNorm => 1,
            LoraKind::Dora => 2,
        }]);
        let count = |hash: &mut Sha256, count: usize| hash.update((count as u64).to_le_bytes());
        for (product, branch) in branches {
            let name = product.to_string();
            count(&mut hash, name.len());
            hash.update(name);
            count(&mut hash, branch.rank);
            hash.update(branch.scale().to_le_bytes());
            for numbers in [&branch.a[..], &branch.b].into_iter().chain(branch.vector.numbers()) {
                count(&mut hash, numbers.len());
                numbers.iter().for_each(|number| hash.update(number.to_le_bytes()));
            }
        }
        AdapterHash(hash.finalize().into())
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}
