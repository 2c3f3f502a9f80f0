//! Moves on a GPU's side stream.

use std::ops::Range;
use std::sync::Arc;

use terrace_device::ViewMut;
use terrace_device::cuda::{CopyPieces, CopyStream, CudaDevice, CudaEvent, PinnedBuffer};

use super::cuda::MovePagesKernels;
use super::move_way::MoveWay;
use super::page_moves::PageMoves;
use super::page_transfer::Marks;
use crate::error::Error;

pub(super) struct CudaMover {
    device: Arc<CudaDevice>,
    stream: CopyStream,
    engine: Engine,
}

enum Engine {
    Batched(CopyPieces),
    Single(CopyPieces),
    Kernel { kernels: MovePagesKernels, blocks: usize, lists: Lists },
}

/// The lists that kernels read, in pinned memory, used in turn.
struct Lists {
    turns: Vec<(PinnedBuffer, Option<CudaEvent>)>,
    turn: usize,
    pages_max: usize,
}

/// Transfers that may be under way before a further one waits for the first.
const LISTS: usize = 8;

impl CudaMover {
    pub(super) fn new(
        device: &Arc<CudaDevice>,
        way: MoveWay,
        pages_max: usize,
    ) -> Result<Self, Error> {
        let engine = match way {
            MoveWay::Host => panic!("pages on a GPU are not moved by the host"),
            MoveWay::BatchedCopies if !device.has_batched_copies() => {
                return Err(Error::BatchedCopies);
            }
            MoveWay::BatchedCopies => Engine::Batched(CopyPieces::default()),
            MoveWay::PieceCopies => Engine::Single(CopyPieces::default()),
            MoveWay::Kernel { blocks } => Engine::Kernel {
                kernels: MovePagesKernels::load(device)?,
                blocks,
                lists: Lists::new(device, pages_max)?,
            },
        };
        let stream = CopyStream::new(Arc::clone(device))?;
        Ok(CudaMover { device: Arc::clone(device), stream, engine })
    }

    pub(super) fn follow_compute(&self) -> Result<(), Error> {
        Ok(self.stream.follow_compute()?)
    }

    /// Starts all parts, which the mover has checked.
    pub(super) fn start(
        &mut self,
        pages: &ViewMut<'_>,
        moves: &PageMoves,
        parts: &[Range<usize>],
    ) -> Result<Marks, Error> {
        let started = self.start_parts(pages, moves, parts);
        if started.is_err() {
            // What was started uses pages that are released with the error.
            self.stream.synchronize();
        }
        started
    }

    fn start_parts(
        &mut self,
        pages: &ViewMut<'_>,
        moves: &PageMoves,
        parts: &[Range<usize>],
    ) -> Result<Marks, Error> {
        let begin = self.stream.mark()?;
        let mut marks = Vec::with_capacity(parts.len());
        let list = match &mut self.engine {
            Engine::Kernel { lists, .. } => lists.fill(moves)?,
            _ => 0,
        };
        for part in parts.iter() {
            match &mut self.engine {
                _ if part.is_empty() || moves.is_empty() => {}
                // SAFETY: the moves hold their pages until the last mark has come, and the part
                // lies inside them; who has the device's pages keeps others away until then.
                Engine::Batched(pieces) => unsafe {
                    collect(pieces, pages, moves, part);
                    self.stream.copy_pieces(pieces)?;
                },
                // SAFETY: as above.
                Engine::Single(pieces) => unsafe {
                    collect(pieces, pages, moves, part);
                    self.stream.copy_each(pieces)?;
                },
                // SAFETY: as above; the list stays until the mark that is kept with it has come.
                Engine::Kernel { kernels, blocks, .. } => unsafe {
                    kernels.move_part(&self.stream, *blocks, pages, moves, list, part);
                },
            }
            marks.push(self.stream.mark()?);
        }
        if let Engine::Kernel { lists, .. } = &mut self.engine {
            let before = lists.used_until(self.stream.mark()?);
            before.into_iter().for_each(|event| self.stream.recycle(event));
        }
        Ok(Marks { device: Arc::clone(&self.device), begin, parts: marks })
    }

    /// Takes the marks of a transfer that has come.
    pub(super) fn recycle(&mut self, marks: Marks) {
        self.stream.recycle(marks.begin);
        marks.parts.into_iter().for_each(|event| self.stream.recycle(event));
    }
}

impl Lists {
    fn new(device: &Arc<CudaDevice>, pages_max: usize) -> Result<Self, Error> {
        let bytes = pages_max * MovePagesKernels::ENTRY_BYTES;
        let turns = (0..LISTS).map(|_| Ok((device.pinned(bytes)?, None)));
        Ok(Lists { turns: turns.collect::<Result<_, Error>>()?, turn: 0, pages_max })
    }

    /// Writes a list where nobody reads one any more, and says where it is.
    fn fill(&mut self, moves: &PageMoves) -> Result<u64, Error> {
        assert!(moves.len() <= self.pages_max, "{} of {} pages", moves.len(), self.pages_max);
        let (list, used_until) = &mut self.turns[self.turn];
        if let Some(mark) = used_until {
            mark.wait()?;
        }
        let entries = list.bytes_mut().chunks_exact_mut(MovePagesKernels::ENTRY_BYTES);
        for (entry, (host, page)) in entries.zip(moves.addresses()) {
            MovePagesKernels::write_entry(entry, host, page);
        }
        Ok(list.device_address()?)
    }

    /// Goes on to the next list; the mark that this one had before, which has come.
    fn used_until(&mut self, mark: CudaEvent) -> Option<CudaEvent> {
        let before = self.turns[self.turn].1.replace(mark);
        self.turn = (self.turn + 1) % LISTS;
        before
    }
}

/// The part of each page as a piece.
fn collect(pieces: &mut CopyPieces, pages: &ViewMut<'_>, moves: &PageMoves, part: &Range<usize>) {
    let ([_, page_bytes], start) = (pages.dims(), pages.device_address());
    pieces.clear();
    for (host, page) in moves.addresses() {
        let host = host + part.start as u64;
        let device = start + (page * page_bytes + part.start) as u64;
        match moves {
            PageMoves::In(_) => pieces.push(device, host, part.len()),
            PageMoves::Out(_) => pieces.push(host, device, part.len()),
        }
    }
}
