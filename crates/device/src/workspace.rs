//! Scratch memory of one step: a bump arena over one allocation.
//!
//! Taken once at start, reset at the start of each step. Running out is a programmer's error
//! (the size is computed from the largest step), so it panics with the numbers.

use std::cell::Cell;

use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Error;
use crate::shape::Shape;
use crate::view::ViewMut;

/// Every part starts at a cache line of the host and of a device.
const ALIGNMENT: usize = 128;

pub struct Workspace {
    memory: Buffer,
    used: Cell<usize>,
}

impl Workspace {
    pub fn new(device: &Device, bytes: usize) -> Result<Self, Error> {
        let memory = device.take(bytes, "workspace")?;
        Ok(Workspace { memory, used: Cell::new(0) })
    }

    /// Hands out the next part of the arena. Its content is whatever an earlier step left.
    #[track_caller]
    pub fn take(&self, dtype: DType, shape: impl Into<Shape>) -> ViewMut<'_> {
        let shape = shape.into();
        let start = self.used.get();
        let end = start + Self::bytes_for(dtype, shape);
        assert!(end <= self.memory.len(), "workspace: {end} of {} bytes", self.memory.len());
        self.used.set(end);
        let (data, place) = self.memory.start();
        // SAFETY: `start..end` lies inside the allocation, is aligned for every dtype, and is
        // handed out once until `reset`, which needs exclusive access and so ends this borrow.
        unsafe { ViewMut::from_raw(data.cast_mut().wrapping_add(start), place, dtype, shape) }
    }

    /// Arena bytes that one `take` of this shape uses, for sizing a workspace.
    pub fn bytes_for(dtype: DType, shape: impl Into<Shape>) -> usize {
        (shape.into().count() * dtype.bytes()).next_multiple_of(ALIGNMENT)
    }

    /// Bytes of the whole arena.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn reset(&mut self) {
        self.used.set(0);
    }
}
