//! Rows of one tensor that several threads write at once, each its own part.
//!
//! The borrow checker cannot see that two workers write different rows, so the promise is the
//! caller's; bounds are still checked here.

use std::marker::PhantomData;
use std::ops::Range;

use crate::dtype::Element;
use crate::view::ViewMut;

pub struct SharedRows<'a, T> {
    data: *mut T,
    rows: usize,
    stride: usize,
    width: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: plain data behind a pointer; `part_mut` makes its caller promise disjoint parts.
unsafe impl<T: Send> Send for SharedRows<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SharedRows<'_, T> {}

impl<'a, T: Element> SharedRows<'a, T> {
    /// The rows of a tensor: everything under an index of its outermost dimension is one row.
    #[track_caller]
    pub fn new(view: &'a mut ViewMut<'_>) -> Self {
        // SAFETY: the view is borrowed exclusively.
        unsafe { Self::of_shared(view) }
    }

    /// As [`new`](Self::new), for a view that several threads reach through a shared borrow.
    ///
    /// # Safety
    /// For `'a`, the view's elements are only touched through parts of its `SharedRows`, of which
    /// no two overlap.
    #[track_caller]
    pub unsafe fn of_shared(view: &'a ViewMut<'_>) -> Self {
        let (rows, width) = view.rows_and_width();
        let data = view.as_view().as_ptr::<T>().cast_mut();
        SharedRows { data, rows, stride: view.row_stride(), width, life: PhantomData }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of one row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// # Safety
    /// Until the slice is dropped, nobody else may hold a part of `row`.
    #[track_caller]
    #[allow(clippy::mut_from_ref)]
    #[inline]
    pub unsafe fn row_mut(&self, row: usize) -> &mut [T] {
        // SAFETY: the whole row is the caller's.
        unsafe { self.part_mut(row, 0..self.width) }
    }

    /// A part to read.
    ///
    /// # Safety
    /// Until the slice is dropped, nobody may hold an overlapping part of `row` to write.
    #[track_caller]
    #[inline]
    pub unsafe fn part(&self, row: usize, part: Range<usize>) -> &[T] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        assert!(part.start <= part.end && part.end <= self.width, "{part:?} of {}", self.width);
        // SAFETY: the part lies inside the row, the view is borrowed for `'a`, and the caller keeps
        // those out who write.
        unsafe {
            let start = self.data.add(row * self.stride + part.start);
            std::slice::from_raw_parts(start, part.len())
        }
    }

    /// # Safety
    /// Until the slice is dropped, nobody else may hold an overlapping part of `row`.
    #[track_caller]
    #[allow(clippy::mut_from_ref)]
    #[inline]
    pub unsafe fn part_mut(&self, row: usize, part: Range<usize>) -> &mut [T] {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        assert!(part.start <= part.end && part.end <= self.width, "{part:?} of {}", self.width);
        // SAFETY: the part lies inside the row, the view is borrowed exclusively for `'a`, and
        // the caller keeps other threads out of this part.
        unsafe {
            let start = self.data.add(row * self.stride + part.start);
            std::slice::from_raw_parts_mut(start, part.len())
        }
    }
}
