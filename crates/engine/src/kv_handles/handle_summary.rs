//! What is known of a handle without its tokens and pages.

use serde_json::Value;
use terrace_tiers::HandleId;

#[derive(Clone, Debug, PartialEq)]
pub struct HandleSummary {
    pub id: HandleId,
    pub name: String,
    pub owner: Option<String>,
    /// How many there are.
    pub tokens: usize,
    /// Of its file; of one that is in memory alone, of its pages.
    pub bytes: u64,
    pub created_unix_ms: u64,
    pub expires_unix_ms: Option<u64>,
    pub is_pinned: bool,
    /// It is on a disk and survives the process.
    pub is_durable: bool,
    /// It came as a file.
    pub is_imported: bool,
    /// Its pages are in memory now.
    pub is_resident: bool,
    /// Another class of arithmetic has computed it: a request that goes on from it may differ from
    /// one that is computed here from its first token.
    pub crosses_arithmetic: bool,
    /// The options of its cache; `None` keeps every key and value as it is.
    pub kv_cache: Option<Value>,
    pub cache_salt: String,
    /// The first eight hexadecimal digits of the model's fingerprint.
    pub model: String,
}
