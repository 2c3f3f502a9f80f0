//! What a model is known by wherever its keys and values are kept: 32 stable bytes.
//!
//! Two models have the same fingerprint exactly when they compute the same: it follows from the
//! content of the weights, the architecture, the rotary setting and the adapter, and from no name,
//! path or time. The class of arithmetic and the format of a cache are not in it; keys of content
//! hold them beside it (`terrace_cache::PrefixSeed`).
//!
//! `fingerprint = SHA-256("terrace model fingerprint 1" · weights · adapter · architecture)`
//!
//! - weights: the 32 bytes of [`WeightsHash`];
//! - adapter: one byte, 0 for none, or 1 and the 32 bytes of [`AdapterHash`];
//! - architecture: the bytes that `architecture.rs` describes, the rotary setting among them.
//!
//! The text has no terminating zero, and each but the last has a fixed length or says it first, so
//! nothing need be said about where one ends. The test vectors stand in `architecture.rs`.

mod architecture;
mod hash_store;
mod weights_hash;
mod weights_hashing;

use sha2::{Digest, Sha256};

use crate::adapter::AdapterHash;
use crate::decoder_spec::DecoderSpec;

pub use hash_store::HashStore;
pub use weights_hash::WeightsHash;
pub use weights_hashing::WeightsHashing;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModelFingerprint([u8; 32]);

/// Raised when the meaning of the bytes changes.
const VERSION: &[u8] = b"terrace model fingerprint 1";
const NO_ADAPTER: u8 = 0;
const ONE_ADAPTER: u8 = 1;

impl ModelFingerprint {
    /// `spec` is the decoder as it runs: for the context that is asked for.
    pub fn new(weights: &WeightsHash, adapter: Option<&AdapterHash>, spec: &DecoderSpec) -> Self {
        let mut hash = Sha256::new_with_prefix(VERSION);
        hash.update(weights.as_bytes());
        match adapter {
            None => hash.update([NO_ADAPTER]),
            Some(adapter) => {
                hash.update([ONE_ADAPTER]);
                hash.update(adapter.as_bytes());
            }
        }
        hash.update(architecture::bytes(spec));
        ModelFingerprint(hash.finalize().into())
    }

    /// Of a model of another kind than decoders, which says what the bytes follow from.
    pub(crate) fn of_bytes(bytes: [u8; 32]) -> Self {
        ModelFingerprint(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}
