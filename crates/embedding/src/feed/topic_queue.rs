//! What has come of one topic and is not applied yet, in batches.
//!
//! Batches are applied first in, first out. A message belongs to the batch that has its last row:
//! once that is applied, so is the message, and all before it. Parts of dense weights belong to no
//! batch until they are whole.

use std::collections::{BTreeMap, VecDeque};

use super::delivery::{Applied, Delivery, MessagePlace};
use super::dense_assembler::{DenseAssembler, DenseProgress, DenseWeights};
use super::dense_message::{DenseFault, DensePart};
use super::row_batch::RowBatch;
use super::update_message::MessageRows;

/// By partition, the offset after the last message.
pub type Offsets = BTreeMap<i32, i64>;

#[derive(Default)]
pub struct TopicQueue {
    batches: VecDeque<Batch>,
    assembler: Option<DenseAssembler>,
    /// Of messages that belong to no batch yet.
    held: Offsets,
    /// Up to which everything was applied or dropped.
    pub applied: Offsets,
    /// What of this was given out to be committed.
    pub offered: Offsets,
}

struct Batch {
    content: Content,
    /// Nothing is added to it any more.
    is_sealed: bool,
    /// Of the messages that belong to it.
    ends: Offsets,
    /// Of the last of them.
    timestamp_ms: Option<i64>,
}

enum Content {
    Rows(RowBatch),
    Dense(DenseWeights),
}

impl TopicQueue {
    pub fn add_rows(&mut self, at: MessagePlace, rows: MessageRows<'_>, keys_most: usize) {
        let dim = rows.dim();
        for (key, row) in rows.iter() {
            let has_room = |batch: &RowBatch| {
                batch.dim() == dim && (batch.keys() < keys_most || batch.has(key))
            };
            match self.open_rows() {
                Some(batch) if has_room(batch) => batch.put(key, row),
                _ => {
                    self.seal();
                    let mut batch = RowBatch::new(dim);
                    batch.put(key, row);
                    self.batches.push_back(Batch::new(Content::Rows(batch), None));
                }
            }
        }
        if let Some(batch) = self.batches.back_mut() {
            batch.timestamp_ms = at.timestamp_ms.or(batch.timestamp_ms);
        }
        self.pass_over(at);
        if self.open_rows().is_some_and(|batch| batch.keys() >= keys_most) {
            self.seal();
        }
    }

    pub fn add_dense(
        &mut self,
        at: MessagePlace,
        part: &DensePart<'_>,
        bytes_most: usize,
    ) -> Result<(), DenseFault> {
        let assembler = self.assembler.get_or_insert_with(|| DenseAssembler::new(bytes_most));
        let progress = assembler.add(part);
        if let Ok(DenseProgress::Whole(weights)) = progress {
            self.batches.push_back(Batch::new(Content::Dense(weights), at.timestamp_ms));
            self.seal();
            self.pass_over(at);
            return Ok(());
        }
        self.pass_over(at);
        progress.map(|_| ())
    }

    /// Nothing more is to come of a message. It is applied with what came before it; parts of
    /// weights that are not whole hold it back.
    pub fn pass_over(&mut self, at: MessagePlace) {
        self.held.insert(at.partition, at.offset + 1);
        if self.assembler.as_ref().is_some_and(|assembler| !assembler.is_empty()) {
            return;
        }
        let held = std::mem::take(&mut self.held);
        match self.batches.back_mut() {
            Some(batch) => batch.ends.extend(held),
            None => self.applied.extend(held),
        }
    }

    pub fn seal(&mut self) {
        if let Some(batch) = self.batches.back_mut() {
            batch.is_sealed = true;
        }
    }

    /// Whether something of a partition waits in the batch that is open.
    pub fn waits_for(&self, partition: i32) -> bool {
        let open = self.batches.back().filter(|batch| !batch.is_sealed);
        open.is_some_and(|batch| batch.ends.contains_key(&partition))
    }

    /// The batch that is to be applied now.
    pub fn front(&self) -> Option<Delivery<'_>> {
        let batch = self.batches.front().filter(|batch| batch.is_sealed)?;
        Some(match &batch.content {
            Content::Rows(rows) => Delivery::Rows(rows.updates()),
            Content::Dense(weights) => Delivery::Dense(weights),
        })
    }

    /// The front was applied.
    pub fn pop(&mut self) -> Applied {
        let batch = self.batches.pop_front().expect("what was applied is at the front");
        self.applied.extend(batch.ends);
        let rows = match batch.content {
            Content::Rows(rows) => rows.keys(),
            Content::Dense(_) => 0,
        };
        Applied { rows, timestamp_ms: batch.timestamp_ms }
    }

    /// Drops what is not applied.
    pub fn drop_waiting(&mut self) {
        self.batches.clear();
        self.assembler = None;
        self.held.clear();
    }

    /// Panics where the books disagree.
    #[cfg(test)]
    pub fn check(&self, keys_most: usize) {
        for (index, batch) in self.batches.iter().enumerate() {
            let is_last = index + 1 == self.batches.len();
            assert!(batch.is_sealed || is_last, "only the last batch is open");
            if let Content::Rows(rows) = &batch.content {
                rows.check();
                assert!((1..=keys_most).contains(&rows.keys()));
            }
            let is_later = |end: (&i32, &i64)| self.applied.get(end.0).is_none_or(|at| at < end.1);
            assert!(batch.ends.iter().all(is_later), "what waits is not applied yet");
        }
        let is_assembling = self.assembler.as_ref().is_some_and(|parts| !parts.is_empty());
        assert!(is_assembling || self.held.is_empty(), "only parts hold messages back");
        for (partition, offered) in &self.offered {
            assert!(offered <= &self.applied[partition], "what is committed is applied");
        }
    }

    fn open_rows(&mut self) -> Option<&mut RowBatch> {
        match self.batches.back_mut() {
            Some(Batch { content: Content::Rows(rows), is_sealed: false, .. }) => Some(rows),
            _ => None,
        }
    }
}

impl Batch {
    fn new(content: Content, timestamp_ms: Option<i64>) -> Self {
        Batch { content, is_sealed: false, ends: Offsets::new(), timestamp_ms }
    }
}
