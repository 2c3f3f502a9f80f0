//! A handle as it is sent.

use serde::Serialize;
use serde_json::Value;
use terrace_engine::HandleSummary;
use utoipa::ToSchema;

/// A KV cache that is kept by name.
#[derive(Debug, Serialize, ToSchema)]
pub struct HandleShape {
    /// Names this handle for as long as it lives.
    pub id: String,
    /// `kv_cache.handle`
    pub object: &'static str,
    /// The name it has now.
    pub name: String,
    /// The model that computed it, as `/v1/models` names it.
    pub model: String,
    /// How many tokens it has.
    pub tokens: usize,
    /// Of its file; of one that is in memory alone, of its pages.
    pub bytes: u64,
    /// When it was made, in Unix seconds.
    pub created: u64,
    /// When it is deleted unless it is pinned, in Unix seconds; null keeps it.
    pub expires_at: Option<u64>,
    /// Whether it stays in memory.
    pub pinned: bool,
    /// Whether it is on a disk and survives the server.
    pub durable: bool,
    /// Whether it came as a file.
    pub imported: bool,
    /// Whether its pages are in memory now.
    pub resident: bool,
    /// Whether another class of arithmetic has computed it, such as a GPU for a CPU.
    pub crosses_arithmetic: bool,
    /// The salt that it was made with.
    pub cache_salt: String,
    /// The options of its cache; null keeps every key and value as it is.
    pub kv_cache: Option<Value>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct HandleList {
    /// `list`
    pub object: &'static str,
    /// The caller's handles, the oldest first.
    pub data: Vec<HandleShape>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedHandle {
    /// The handle that is gone.
    pub id: String,
    /// `kv_cache.handle`
    pub object: &'static str,
    /// `true`
    pub deleted: bool,
}

const OBJECT: &str = "kv_cache.handle";

impl HandleShape {
    pub fn new(model: &str, handle: HandleSummary) -> Self {
        Self {
            id: handle.id.to_string(),
            object: OBJECT,
            name: handle.name,
            model: model.to_owned(),
            tokens: handle.tokens,
            bytes: handle.bytes,
            created: handle.created_unix_ms / 1000,
            expires_at: handle.expires_unix_ms.map(|ms| ms / 1000),
            pinned: handle.is_pinned,
            durable: handle.is_durable,
            imported: handle.is_imported,
            resident: handle.is_resident,
            crosses_arithmetic: handle.crosses_arithmetic,
            cache_salt: handle.cache_salt,
            kv_cache: handle.kv_cache,
        }
    }
}

impl DeletedHandle {
    pub fn new(id: String) -> Self {
        Self { id, object: OBJECT, deleted: true }
    }
}
