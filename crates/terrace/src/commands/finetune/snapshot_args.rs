//! `record_gpu_memory_*`: recordings of memory that PyTorch's viewer draws.

use std::path::Path;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use terrace_tune::run::{MemorySnapshots, SnapshotKind};

use crate::options::at_least_one;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Recordings of memory")]
pub struct SnapshotArgs {
    /// Record what takes and gives back memory of the device that computes, so many of the newest
    /// events in each file, into gpu_memory_snapshots of the output folder. PyTorch draws them:
    /// torch/cuda/_memory_viz.py trace_plot FILE.
    #[arg(long, value_name = "EVENTS", value_parser = at_least_one::<usize>)]
    record_gpu_memory_snapshots: Option<usize>,

    /// What is in a file. 0: all until backward begins, and then each row of layers; 1: a whole
    /// pass; 2: the forward pass; 3: from the end of the forward pass on.
    #[arg(long, value_name = "KIND", default_value = "0", hide_short_help = true,
          value_parser = PossibleValuesParser::new(["0", "1", "2", "3"])
              .map(|kind| kind_of(&kind)))]
    record_gpu_memory_kind: SnapshotKind,

    /// Steps from one recording to the next; of a step's passes the first is recorded.
    #[arg(long, value_name = "STEPS", default_value_t = 1, hide_short_help = true,
          value_parser = at_least_one::<u64>)]
    record_gpu_memory_period: u64,
}

fn kind_of(number: &str) -> SnapshotKind {
    match number {
        "1" => SnapshotKind::Iteration,
        "2" => SnapshotKind::Forward,
        "3" => SnapshotKind::Backward,
        _ => SnapshotKind::Rows,
    }
}

impl SnapshotArgs {
    pub fn snapshots(&self, out_dir: &Path) -> Option<MemorySnapshots> {
        Some(MemorySnapshots {
            folder: out_dir.join("gpu_memory_snapshots"),
            events_most: self.record_gpu_memory_snapshots?,
            kind: self.record_gpu_memory_kind,
            period: self.record_gpu_memory_period,
        })
    }
}
