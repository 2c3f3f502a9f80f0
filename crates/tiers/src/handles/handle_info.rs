//! What the store knows of a handle without reading its file.

use serde_json::Value;

use super::handle_id::HandleId;
use super::handle_manifest::HandleManifest;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandleInfo {
    pub id: HandleId,
    pub name: String,
    pub owner: Option<String>,
    pub created_unix_ms: u64,
    pub expires_unix_ms: Option<u64>,
    pub is_pinned: bool,
    pub is_imported: bool,
    pub model: [u8; 32],
    pub arithmetic: Vec<u8>,
    pub cache_salt: String,
    pub kv_cache: Option<Value>,
    /// How many there are.
    pub tokens: u64,
    pub computed: u64,
    pub pages: u64,
    pub page_bytes: u64,
    pub file_bytes: u64,
}

impl HandleInfo {
    pub(super) fn new(manifest: &HandleManifest, file_bytes: u64) -> Self {
        HandleInfo {
            id: manifest.id,
            name: manifest.name.clone(),
            owner: manifest.owner.clone(),
            created_unix_ms: manifest.created_unix_ms,
            expires_unix_ms: manifest.expires_unix_ms,
            is_pinned: manifest.is_pinned,
            is_imported: manifest.is_imported,
            model: manifest.model,
            arithmetic: manifest.arithmetic.clone(),
            cache_salt: manifest.cache_salt.clone(),
            kv_cache: manifest.kv_cache.clone(),
            tokens: manifest.tokens.len() as u64,
            computed: manifest.computed,
            pages: manifest.pages(),
            page_bytes: manifest.page_bytes,
            file_bytes,
        }
    }

    /// Whether its time is over; one that is pinned has none.
    pub fn is_expired(&self, now_unix_ms: u64) -> bool {
        !self.is_pinned && self.expires_unix_ms.is_some_and(|expires| expires <= now_unix_ms)
    }
}
