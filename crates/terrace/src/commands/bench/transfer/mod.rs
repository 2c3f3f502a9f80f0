//! `terrace bench transfer`: how fast pages of keys and values move between host memory and a
//! device, and what that costs the steps beside it.
//!
//! Pages have random places on both sides, as after a long service. What is timed is seen from the
//! host: from the call that starts a transfer until its last byte has come.

mod compute_load;
mod moved_pages;
mod report;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use terrace_device::{DType, Device};
use terrace_engine::DeviceChoice;
use terrace_kernels::{LayerCuts, MoveWay, PageMover};

use self::compute_load::ComputeLoad;
use self::moved_pages::{Direction, MovedPages, PageSet};
use self::report::{BesideRow, BothRow, MoveRow, TransferReport};
use crate::byte_size::ByteSize;
use crate::commands::print_report::print_report;
use crate::commands::selftest::tested_device::{PAGES, TestedDevice};
use crate::options::start_quiet_log;

/// Measure how fast pages of the KV cache move between host memory and a device.
///
/// A page is one run of bytes on both sides, with all layers in it. It can be moved whole, or layer
/// by layer, all pages of a layer before the next: a step may then begin before the last layers are
/// there, but the pieces are small. Measured are all ways that the device has, in both directions,
/// by themselves, both at once, and beside kernels: what these lose is what swapping and prefix
/// promotion cost a running service. The best of --repeat runs is shown.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the tables:
  pinned         host memory taken for the pages, in GB/s: what a start waits for
  way            batched copies: the GPU's copy engines, one call for the pieces of a part
                 single copies: the same with a call for each piece
                 kernel, N blocks: a kernel that reads and writes the host's memory
  whole          the page as one piece
  by layer       a part, and an event to wait for, for each layer
  graded         parts of 1, 1, 2 and then 4 layers: an early begin, and larger pieces
  first part     when the first part had come, from the begin on the device
  started in     what the call that starts a transfer costs the host's thread
  beside         speed of kernels while pages move, beside their own, and of the pages

Examples:
  terrace bench transfer
  terrace bench transfer --device cuda:0 --page-bytes 1MiB --layers 16 --pages 2048
  terrace bench transfer --json > transfer.json")]
pub struct TransferArgs {
    /// Whose memory the pages move to and from: auto (the first GPU, or the CPU when there is
    /// none), cpu, or cuda:0.
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceChoice,

    /// Bytes of a page. Left out: 16 tokens of an 8B model in bf16.
    #[arg(long, value_name = "SIZE", default_value = "2MiB")]
    page_bytes: ByteSize,

    /// Pages of a transfer; twice as many are taken on both sides. Left out: 16384 tokens.
    #[arg(long, value_name = "PAGES", default_value_t = 1024)]
    pages: usize,

    /// Layers of a page, of equal size.
    #[arg(long, value_name = "LAYERS", default_value_t = 32)]
    layers: usize,

    /// Runs of each, after one that is not counted.
    #[arg(long, value_name = "RUNS", default_value_t = 3)]
    repeat: usize,

    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &TransferArgs) -> Result<()> {
    start_quiet_log();
    print_report(&measure(args)?, args.json)
}

fn measure(args: &TransferArgs) -> Result<TransferReport> {
    args.check()?;
    let tested = TestedDevice::find(args.device, 1, None)?;
    let ops = tested.ops(DType::Bf16, [PAGES])?;
    let device = ops.device();
    let page_bytes = args.page_bytes.0;
    let mut moved = MovedPages::take(&device, page_bytes, args.pages)?;
    moved.fill();
    let mut report = TransferReport {
        device: tested.name(),
        page_bytes,
        pages: args.pages,
        layers: args.layers,
        pinned_gb_per_second: moved.pinned_gb_per_second(),
        moves: Vec::new(),
        both: Vec::new(),
        beside: Vec::new(),
    };
    let ways = MoveWay::all(&device);
    for &way in &ways {
        let mut mover = PageMover::new(&device, way, args.pages)?;
        for direction in Direction::BOTH {
            for cuts in LayerCuts::ALL {
                report.moves.push(args.time(&mut moved, &mut mover, (way, direction, cuts))?);
            }
        }
    }
    for &way in &ways {
        report.both.push(args.time_both(&mut moved, &device, way)?);
    }
    if let Device::Cuda(_) = device {
        for mut load in ComputeLoad::all(&ops)? {
            load.time_alone()?;
            for (way, cuts) in ways.iter().flat_map(|&way| LayerCuts::ALL.map(|cuts| (way, cuts))) {
                for direction in Direction::BOTH {
                    let what = (way, direction, cuts);
                    report.beside.push(args.time_beside(&mut moved, &mut load, what)?);
                }
            }
        }
    }
    Ok(report)
}

impl TransferArgs {
    fn check(&self) -> Result<()> {
        let bytes = self.page_bytes.0;
        if [bytes, self.pages, self.layers, self.repeat].contains(&0) {
            bail!("sizes must be 1 or more");
        }
        if !bytes.is_multiple_of(self.layers) {
            bail!("{} layers do not divide a page of {bytes} bytes", self.layers);
        }
        Ok(())
    }

    fn bytes(&self) -> f64 {
        (self.pages * self.page_bytes.0) as f64
    }

    fn time(
        &self,
        moved: &mut MovedPages,
        mover: &mut PageMover,
        (way, direction, cuts): (MoveWay, Direction, LayerCuts),
    ) -> Result<MoveRow> {
        let parts = cuts.parts(self.page_bytes.0, self.page_bytes.0 / self.layers, self.layers);
        let set = &mut moved.sets_mut()[0];
        set.run(mover, direction, &parts)?;
        let runs = (0..self.repeat).map(|_| set.run(mover, direction, &parts));
        let runs = runs.collect::<Result<Vec<_>>>()?;
        let best = runs.into_iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let best = best.expect("at least one run");
        Ok(MoveRow {
            way: way.to_string(),
            direction: direction.name(),
            cuts: cuts.name(),
            gb_per_second: self.bytes() / best.seconds * 1e-9,
            first_part_ms: best.first_part_ms,
            start_ms: best.start_seconds * 1e3,
        })
    }

    /// A transfer in each direction at the same time, by layer, from a thread each.
    fn time_both(&self, moved: &mut MovedPages, device: &Device, way: MoveWay) -> Result<BothRow> {
        let parts = LayerCuts::Graded.parts(
            self.page_bytes.0,
            self.page_bytes.0 / self.layers,
            self.layers,
        );
        let seconds = |set: &mut PageSet, direction| -> Result<f64> {
            let mut mover = PageMover::new(device, way, self.pages)?;
            set.run(&mut mover, direction, &parts)?;
            let began = Instant::now();
            for _ in 0..self.repeat {
                set.run(&mut mover, direction, &parts)?;
            }
            Ok(began.elapsed().as_secs_f64())
        };
        let [one, other] = moved.sets_mut();
        let (ins, outs) = std::thread::scope(|scope| {
            let outs = scope.spawn(|| seconds(other, Direction::Out));
            (seconds(one, Direction::In), outs.join().expect("moving pages does not panic"))
        });
        let rate = |seconds: f64| self.repeat as f64 * self.bytes() / seconds * 1e-9;
        let (in_gb_per_second, out_gb_per_second) = (rate(ins?), rate(outs?));
        Ok(BothRow { way: way.to_string(), in_gb_per_second, out_gb_per_second })
    }

    /// Kernels on the compute stream while a thread moves pages again and again.
    fn time_beside(
        &self,
        moved: &mut MovedPages,
        load: &mut ComputeLoad<'_>,
        (way, direction, cuts): (MoveWay, Direction, LayerCuts),
    ) -> Result<BesideRow> {
        let parts = cuts.parts(self.page_bytes.0, self.page_bytes.0 / self.layers, self.layers);
        let mut mover = PageMover::new(&load.device(), way, self.pages)?;
        let (is_over, set) = (AtomicBool::new(false), &mut moved.sets_mut()[0]);
        set.run(&mut mover, direction, &parts)?;
        let (compute_share, gb_per_second) = std::thread::scope(|scope| {
            let moving = scope.spawn(|| -> Result<f64> {
                let (began, mut runs) = (Instant::now(), 0);
                while !is_over.load(Ordering::Relaxed) || runs == 0 {
                    set.run(&mut mover, direction, &parts)?;
                    runs += 1;
                }
                Ok(f64::from(runs) * self.bytes() / began.elapsed().as_secs_f64() * 1e-9)
            });
            let share = load.share_of_alone();
            is_over.store(true, Ordering::Relaxed);
            (share, moving.join().expect("moving pages does not panic"))
        });
        Ok(BesideRow {
            compute: load.name(),
            way: way.to_string(),
            direction: direction.name(),
            cuts: cuts.name(),
            compute_share: compute_share?,
            gb_per_second: gb_per_second?,
        })
    }
}

#[cfg(test)]
mod tests;
