//! Recordings of the memory of passes, in files that PyTorch's memory viewer draws
//! (`torch/cuda/_memory_viz.py trace_plot`, or its page).
//!
//! A file is a pickle of what `torch.cuda.memory._snapshot()` gives: `segments`, the memory that is
//! held at the end of the recording, and `device_traces`, a list of events for each device. What
//! memory was taken for stands where PyTorch has the Python frames.

use std::fs;
use std::path::PathBuf;

use terrace_device::{BufferPool, HeldMemory, MemoryChange, MemoryEvent, MemoryRecord};
use terrace_model::torch_file::TorchItem;

use crate::error::Error;
use crate::pass_events::PassEvents;

/// Which passes are recorded, and in how many files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySnapshots {
    /// `iteration…` folders are made in it.
    pub folder: PathBuf,
    /// Events of a file, the newest.
    pub events_most: usize,
    pub kind: SnapshotKind,
    /// Steps from one that is recorded to the next.
    pub period: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotKind {
    /// `snapshot_initial` until the head is done, then `snapshot_layer…` for each row of layers.
    Rows,
    /// All of a pass in `snapshot_iteration`.
    Iteration,
    /// `snapshot_forward` alone.
    Forward,
    /// `snapshot_backward` alone, from the head on.
    Backward,
}

/// A pass that is recorded.
pub(crate) struct PassRecording<'a> {
    snapshots: &'a MemorySnapshots,
    pool: &'a BufferPool,
    folder: PathBuf,
}

impl MemorySnapshots {
    /// Begins with the first pass of a step, if it is to be recorded. Steps count from 1 on.
    pub(crate) fn begin<'a>(
        &'a self,
        pool: &'a BufferPool,
        step: u64,
    ) -> Result<Option<PassRecording<'a>>, Error> {
        if !(step - 1).is_multiple_of(self.period) {
            return Ok(None);
        }
        let folder = self.folder.join(format!("iteration{step}"));
        fs::create_dir_all(&folder)
            .map_err(|error| Error::Write { path: folder.clone(), error })?;
        pool.record(self.events_most);
        Ok(Some(PassRecording { snapshots: self, pool, folder }))
    }
}

impl PassRecording<'_> {
    fn write(&self, name: &str) -> Result<(), Error> {
        let record = self.pool.take_record();
        snapshot(&record).write_plain(&self.folder.join(format!("snapshot_{name}.pickle")))?;
        Ok(())
    }

    fn record(&self) {
        self.pool.record(self.snapshots.events_most);
    }

    /// The end of the pass.
    pub fn finish(self) -> Result<(), Error> {
        match self.snapshots.kind {
            SnapshotKind::Iteration => self.write("iteration"),
            SnapshotKind::Backward => self.write("backward"),
            SnapshotKind::Rows | SnapshotKind::Forward => {
                self.pool.take_record();
                Ok(())
            }
        }
    }
}

impl PassEvents for PassRecording<'_> {
    fn forward_done(&mut self) -> Result<(), Error> {
        match self.snapshots.kind {
            SnapshotKind::Forward => self.write("forward"),
            SnapshotKind::Backward => {
                self.record();
                Ok(())
            }
            SnapshotKind::Rows | SnapshotKind::Iteration => Ok(()),
        }
    }

    fn head_done(&mut self) -> Result<(), Error> {
        if self.snapshots.kind == SnapshotKind::Rows {
            self.write("initial")?;
            self.record();
        }
        Ok(())
    }

    fn row_done(&mut self, first_layer: usize) -> Result<(), Error> {
        if self.snapshots.kind == SnapshotKind::Rows {
            self.write(&format!("layer{first_layer}"))?;
            self.record();
        }
        Ok(())
    }
}

/// What the viewer reads.
fn snapshot(record: &MemoryRecord) -> TorchItem<'static> {
    let trace = TorchItem::List(record.events.iter().flat_map(events).collect());
    dict([
        ("segments", TorchItem::List(record.held.iter().map(segment).collect())),
        ("device_traces", TorchItem::List(vec![trace])),
        ("allocator_settings", dict([])),
    ])
}

/// Memory is given back in two events: the owner lets go of it, and it is free.
fn events(event: &MemoryEvent) -> Vec<TorchItem<'static>> {
    let actions: &[&'static str] = match event.change {
        MemoryChange::Taken => &["alloc"],
        MemoryChange::GivenBack => &["free_requested", "free_completed"],
    };
    let item = |action: &&'static str| {
        dict([
            ("action", TorchItem::Text(action)),
            ("addr", TorchItem::Int(event.memory.address as i64)),
            ("size", TorchItem::Int(event.memory.bytes as i64)),
            ("stream", TorchItem::Int(0)),
            ("time_us", TorchItem::Int(event.at.as_micros() as i64)),
            ("frames", frames(&event.memory)),
        ])
    };
    actions.iter().map(item).collect()
}

/// Held memory, as a segment with one block.
fn segment(memory: &HeldMemory) -> TorchItem<'static> {
    let bytes = || TorchItem::Int(memory.bytes as i64);
    let block = dict([
        ("address", TorchItem::Int(memory.address as i64)),
        ("size", bytes()),
        ("requested_size", bytes()),
        ("state", TorchItem::Text("active_allocated")),
        ("frames", frames(memory)),
    ]);
    dict([
        ("device", TorchItem::Int(0)),
        ("address", TorchItem::Int(memory.address as i64)),
        ("total_size", bytes()),
        ("allocated_size", bytes()),
        ("active_size", bytes()),
        ("requested_size", bytes()),
        ("stream", TorchItem::Int(0)),
        ("segment_type", TorchItem::Text("large")),
        ("segment_pool_id", TorchItem::List(vec![TorchItem::Int(0), TorchItem::Int(0)])),
        ("is_expandable", TorchItem::Int(0)),
        ("frames", TorchItem::List(Vec::new())),
        ("blocks", TorchItem::List(vec![block])),
    ])
}

fn frames(memory: &HeldMemory) -> TorchItem<'static> {
    TorchItem::List(vec![dict([
        ("filename", TorchItem::Text("terrace")),
        ("line", TorchItem::Int(0)),
        ("name", TorchItem::Text(memory.what)),
    ])])
}

fn dict<const LENGTH: usize>(entries: [(&str, TorchItem<'static>); LENGTH]) -> TorchItem<'static> {
    TorchItem::Dict(entries.into_iter().map(|(name, item)| (name.to_owned(), item)).collect())
}
