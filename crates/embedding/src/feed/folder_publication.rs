//! The rows of a table's files as updates: all of them, or those of some keys.

use std::time::Duration;

use super::feed_error::FeedError;
use super::update_publisher::UpdatePublisher;
use crate::key_kind::KeyKind;
use crate::load::{LoadError, SparseBatch, SparseFolder};

/// What is published, and as what.
pub struct FolderPublication<'a> {
    pub folder: &'a SparseFolder,
    /// In their order; `None`: all.
    pub keys: Option<&'a [i64]>,
    pub topic: &'a str,
    pub key_kind: KeyKind,
    /// The longest wait for all rows to arrive, after the last was sent.
    pub flush: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    #[error(transparent)]
    Files(#[from] LoadError),
    #[error(transparent)]
    Feed(#[from] FeedError),
}

/// Of rows that are read and queued at once.
const BATCH_BYTES: usize = 8 << 20;

impl FolderPublication<'_> {
    /// Returns the rows that were sent when brokers have them all. Of a key that repeats, the rows
    /// go in the order of the files, so that the last stays. Calls `progress` with how many were
    /// sent.
    pub fn send(
        &self,
        publisher: &UpdatePublisher,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64, PublishError> {
        let (folder, dim) = (self.folder, self.folder.dim());
        let batch_rows = (BATCH_BYTES / (dim * size_of::<f32>())).max(1);
        let mut batch = SparseBatch::default();
        let mut sent = 0;
        for start in (0..folder.count()).step_by(batch_rows) {
            folder.read(start, batch_rows, self.key_kind, &mut batch)?;
            if let Some(keys) = self.keys {
                keep(&mut batch, dim, keys);
            }
            publisher.publish_rows(self.topic, self.key_kind, &batch.keys, &batch.rows, dim)?;
            sent += batch.keys.len() as u64;
            progress(sent);
        }
        publisher.flush(self.flush)?;
        Ok(sent)
    }
}

/// Only the rows of these keys, which are sorted.
fn keep(batch: &mut SparseBatch, dim: usize, keys: &[i64]) {
    let mut kept = 0;
    for index in 0..batch.keys.len() {
        if keys.binary_search(&batch.keys[index]).is_ok() {
            batch.keys[kept] = batch.keys[index];
            batch.rows.copy_within(index * dim..(index + 1) * dim, kept * dim);
            kept += 1;
        }
    }
    batch.keys.truncate(kept);
    batch.rows.truncate(kept * dim);
}
