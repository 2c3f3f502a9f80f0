//! Moves pages between host memory and a device, beside its steps.
//!
//! A mover has a stream of its own: its transfers follow each other, and another mover's go on
//! beside them. It does not know what the pages are for; who starts a transfer keeps everybody
//! from the device's pages until it has come.

use std::ops::Range;

use terrace_device::{DType, Device, ViewMut};

use super::cuda_mover::CudaMover;
use super::move_way::MoveWay;
use super::page_moves::PageMoves;
use super::page_transfer::PageTransfer;
use super::reference;
use crate::error::Error;

pub struct PageMover {
    home: Home,
}

enum Home {
    Cpu,
    Cuda(Box<CudaMover>),
}

impl PageMover {
    /// For transfers of at most `pages_max` pages; before a GPU's arena is reserved.
    pub fn new(device: &Device, way: MoveWay, pages_max: usize) -> Result<Self, Error> {
        let home = match device {
            Device::Cpu => Home::Cpu,
            Device::Cuda(gpu) => Home::Cuda(Box::new(CudaMover::new(gpu, way, pages_max)?)),
        };
        Ok(PageMover { home })
    }

    /// Transfers that are started from now on begin when all kernels launched so far are done: for
    /// pages that one of these may still write or read.
    pub fn follow_compute(&self) -> Result<(), Error> {
        match &self.home {
            Home::Cpu => Ok(()),
            Home::Cuda(mover) => mover.follow_compute(),
        }
    }

    /// Starts moving these parts of pages, one part after the other · pages: u8
    /// `[pages, page_bytes]`, dense
    ///
    /// Until the transfer has come nobody else writes the device's pages that it reads, or uses
    /// those that it writes.
    pub fn start(
        &mut self,
        mut pages: ViewMut<'_>,
        mut moves: PageMoves,
        parts: &[Range<usize>],
    ) -> Result<PageTransfer, Error> {
        let [count, page_bytes] = pages.dims();
        assert_eq!(pages.dtype(), DType::U8, "pages to move");
        assert_eq!(pages.as_view().dense_bytes(), count * page_bytes, "pages to move");
        moves.check(count, page_bytes);
        for part in parts {
            let is_inside = part.start <= part.end && part.end <= page_bytes;
            assert!(is_inside, "{part:?} of {page_bytes} bytes of a page");
        }
        let marks = match &mut self.home {
            Home::Cpu => {
                let each = |part| reference::move_part(&mut pages, &mut moves, part);
                parts.iter().for_each(each);
                None
            }
            Home::Cuda(mover) => Some(mover.start(&pages, &moves, parts)?),
        };
        Ok(PageTransfer { moves: Some(moves), marks })
    }

    /// Waits for a transfer of this mover, and gives its pages back.
    pub fn finish(&mut self, mut transfer: PageTransfer) -> Result<PageMoves, Error> {
        transfer.wait_all()?;
        if let (Home::Cuda(mover), Some(marks)) = (&mut self.home, transfer.marks.take()) {
            mover.recycle(marks);
        }
        Ok(transfer.moves.take().expect("a transfer has its moves until it is finished"))
    }
}
