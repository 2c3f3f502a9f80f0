//! What a database says of a table beside its rows: how wide they are, and which file they are of.

use serde::{Deserialize, Serialize};

use crate::key_kind::KeyKind;
use crate::table_spec::TableSpec;
use crate::table_tag::TableTag;

/// Of the records and of how rows are laid out. A newer one is refused.
pub const TABLE_FORMAT: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableRecord {
    pub format: u32,
    pub dim: usize,
    /// Bytes of a key: 4 or 8.
    pub key_bytes: usize,
    /// The hash of the files that were loaded; `None` before all of them were, and for tables that
    /// only updates have written.
    pub version: Option<String>,
    /// Sizes and times of the files that were loaded, or are being loaded.
    pub stamp: Option<String>,
    /// Rows of these files which are in the table, from their beginning.
    pub loaded_rows: u64,
    pub is_loaded: bool,
    /// When that version was made, in milliseconds since 1970: updates from then on belong to it.
    pub version_time_ms: u64,
    /// Whether the updates that were published between then and the loading have been applied.
    #[serde(default)]
    pub is_replayed: bool,
    /// The same of topics that are not the table's own: those of models that share it.
    #[serde(default)]
    pub replayed_topics: Vec<String>,
    /// Of several versions of a table, the one with the highest number was served last; 0 where
    /// there was no other when it was.
    #[serde(default)]
    pub served: u64,
}

impl TableRecord {
    /// Of a table that nothing was loaded into.
    pub fn new(spec: &TableSpec) -> Self {
        TableRecord {
            format: TABLE_FORMAT,
            dim: spec.dim,
            key_bytes: spec.key_kind.bytes(),
            version: None,
            stamp: None,
            loaded_rows: 0,
            is_loaded: false,
            version_time_ms: 0,
            is_replayed: false,
            replayed_topics: Vec::new(),
            served: 0,
        }
    }

    /// Whether updates of a topic have been applied up to what is committed of it.
    pub fn has_replayed(&self, tag: &TableTag, topic: &str) -> bool {
        match topic == tag.kafka_topic() {
            true => self.is_replayed,
            false => self.replayed_topics.iter().any(|it| it == topic),
        }
    }

    pub fn set_replayed(&mut self, tag: &TableTag, topic: &str) {
        if topic == tag.kafka_topic() {
            self.is_replayed = true;
        } else if !self.has_replayed(tag, topic) {
            self.replayed_topics.push(topic.to_owned());
        }
    }

    /// Why the table cannot be opened as `spec`, in words.
    pub fn conflict(&self, spec: &TableSpec) -> Option<String> {
        let tag = &spec.tag;
        if self.format > TABLE_FORMAT {
            return Some(format!(
                "table {tag} has format {}, and this program knows {TABLE_FORMAT}; use a newer one",
                self.format
            ));
        }
        let kind = |bytes: usize| if bytes == KeyKind::I64.bytes() { "i64" } else { "u32" };
        let is_same = (self.dim, self.key_bytes) == (spec.dim, spec.key_kind.bytes());
        (!is_same).then(|| {
            format!(
                "table {tag} has rows of {} numbers under {} keys, and {} under {} are asked for; \
                 remove it, or mend the configuration",
                self.dim,
                kind(self.key_bytes),
                spec.dim,
                kind(spec.key_kind.bytes())
            )
        })
    }
}
