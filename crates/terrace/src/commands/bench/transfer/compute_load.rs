//! Kernels on a GPU's compute stream, to see what they lose while pages move beside them.

use anyhow::{Context, Result};
use terrace_device::{Buffer, DType, Device};
use terrace_kernels::{Linear, LinearShape, Ops, RowKinds, WeightFormat};

use crate::commands::bench::attention::Timing;

pub struct ComputeLoad<'a> {
    ops: &'a Ops,
    name: &'static str,
    work: Work,
    alone_ms: f64,
}

enum Work {
    /// Copies of pages: bound by memory.
    Copies { pages: Buffer, pairs: Buffer },
    /// Products with some matrices in turn: few rows are bound by memory, many by arithmetic.
    Products { rows: usize, weights: Vec<Linear>, x: Buffer, out: Buffer },
}

/// Of a product: those of an 8B model's feed-forward layer. All matrices together are several times
/// a GPU's cache.
const HIDDEN: usize = 4096;
const WIDTH: usize = 14_336;
const MATRICES: usize = 4;
/// Of the copies, with a page that has one block of each multiprocessor or more.
const COPIED_PAGES: usize = 256;
const COPIED_PAGE_BYTES: usize = 2 << 20;
const REPEAT: usize = 3;
const SEED: u64 = 1;

impl<'a> ComputeLoad<'a> {
    /// Page copies, a decoding step's product, and a chunk's.
    pub fn all(ops: &'a Ops) -> Result<Vec<Self>> {
        let load = |name, work| ComputeLoad { ops, name, work, alone_ms: f64::INFINITY };
        Ok(vec![
            load("page copies", Work::copies(&ops.device())?),
            load("32-row product", Work::products(ops, 32)?),
            load("2048-row product", Work::products(ops, 2048)?),
        ])
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn device(&self) -> Device {
        self.ops.device()
    }

    pub fn time_alone(&mut self) -> Result<()> {
        self.alone_ms = self.ms()?;
        Ok(())
    }

    /// Speed now, of that alone.
    pub fn share_of_alone(&mut self) -> Result<f64> {
        Ok(self.alone_ms / self.ms()?)
    }

    /// The median, since what goes on beside it is part of what is measured.
    fn ms(&mut self) -> Result<f64> {
        let (ops, work) = (self.ops, &mut self.work);
        let timing = Timing::measure(ops, REPEAT, 1, || work.launch(ops));
        Ok(timing.context(self.name)?.median_ms)
    }
}

impl Work {
    fn copies(device: &Device) -> Result<Self> {
        let half = COPIED_PAGES as i32 / 2;
        let pairs: Vec<u8> =
            (0..half).flat_map(|page| [page, page + half]).flat_map(i32::to_ne_bytes).collect();
        let mut placed = device.take(pairs.len(), "pairs of pages")?;
        if let Device::Cuda(gpu) = device {
            gpu.write(&placed.view_mut(DType::U8, [pairs.len()]), &pairs)?;
        }
        let pages = device.take(COPIED_PAGES * COPIED_PAGE_BYTES, "pages to copy")?;
        Ok(Work::Copies { pages, pairs: placed })
    }

    fn products(ops: &Ops, rows: usize) -> Result<Self> {
        let shape = LinearShape { rows: WIDTH, columns: HIDDEN, gated: false, table: None };
        let weights = (0..MATRICES as u64)
            .map(|number| ops.random(shape, WeightFormat::Bf16, SEED + number))
            .collect::<Result<_, _>>()?;
        let (device, act_bytes) = (ops.device(), ops.activation().bytes());
        let x = device.take(rows * HIDDEN * act_bytes, "rows to multiply")?;
        let out = device.take(rows * WIDTH * act_bytes, "products")?;
        Ok(Work::Products { rows, weights, x, out })
    }

    fn launch(&mut self, ops: &Ops) {
        match self {
            Work::Copies { pages, pairs } => {
                let pages = pages.view_mut(DType::U8, [COPIED_PAGES, COPIED_PAGE_BYTES]);
                ops.copy_pages(pages, pairs.view(DType::I32, [COPIED_PAGES / 2, 2]));
            }
            Work::Products { rows, weights, x, out } => {
                let (rows, act) = (*rows, ops.activation());
                for weights in weights {
                    let out = out.view_mut(act, [rows, WIDTH]);
                    ops.project(x.view(act, [rows, HIDDEN]), RowKinds::Generated, weights, out);
                }
            }
        }
    }
}
