//! Borrowed tensors: an address, a type, a shape and strides.
//!
//! A view owns nothing and decides nothing. It is what every op takes, so an op never allocates.
//! Rows may be strided (a slice of a wider matrix); what lies inside a row is always dense.

use std::marker::PhantomData;
use std::ops::Range;

use crate::dtype::{DType, Element};
use crate::memory_space::MemorySpace;
use crate::shape::{MAX_RANK, Shape};

/// A tensor to read.
#[derive(Clone, Copy)]
pub struct View<'a> {
    raw: Raw,
    life: PhantomData<&'a [u8]>,
}

/// A tensor to write. Not `Clone`: two of them never overlap.
pub struct ViewMut<'a> {
    raw: Raw,
    life: PhantomData<&'a mut [u8]>,
}

#[derive(Clone, Copy)]
struct Raw {
    data: *mut u8,
    space: MemorySpace,
    dtype: DType,
    shape: Shape,
    strides: [usize; MAX_RANK],
}

// SAFETY: a view is a borrow of plain bytes; `View` only reads and may be shared, `ViewMut` is
// exclusive and may move, exactly like `&[u8]` and `&mut [u8]`.
unsafe impl Send for View<'_> {}
// SAFETY: as above.
unsafe impl Sync for View<'_> {}
// SAFETY: as above.
unsafe impl Send for ViewMut<'_> {}
// SAFETY: through `&ViewMut` bytes can only be read.
unsafe impl Sync for ViewMut<'_> {}

/// What every view can be asked for, and made into.
macro_rules! common {
    () => {
        pub fn dtype(&self) -> DType {
            self.raw.dtype
        }

        pub fn shape(&self) -> Shape {
            self.raw.shape
        }

        /// The extents; panics unless there are `RANK` of them.
        #[track_caller]
        pub fn dims<const RANK: usize>(&self) -> [usize; RANK] {
            self.raw.dims()
        }

        /// Elements from one index of the outermost dimension to the next.
        pub fn row_stride(&self) -> usize {
            self.raw.strides[0]
        }

        /// Where the first element lies on its device; panics for host memory.
        #[track_caller]
        pub fn device_address(&self) -> u64 {
            self.raw.device_address()
        }

        /// The same bytes under another shape of as many elements; dense tensors only.
        #[track_caller]
        pub fn reshape(self, shape: impl Into<Shape>) -> Self {
            Self { raw: self.raw.reshape(shape.into()), life: PhantomData }
        }

        /// The first `rows` of the outermost dimension.
        #[track_caller]
        pub fn first(self, rows: usize) -> Self {
            Self { raw: self.raw.rows(0..rows), life: PhantomData }
        }

        /// A range of the outermost dimension.
        #[track_caller]
        pub fn rows(self, range: Range<usize>) -> Self {
            Self { raw: self.raw.rows(range), life: PhantomData }
        }

        /// Reads matrix columns as heads: `[rows, heads * dim]` becomes `[rows, heads, dim]`.
        #[track_caller]
        pub fn split_heads(self, heads: usize) -> Self {
            Self { raw: self.raw.split_heads(heads), life: PhantomData }
        }
    };
}

impl<'a> View<'a> {
    common!();

    /// Reads a slice as a tensor. The slice must hold exactly the shape's elements.
    pub fn of<T: Element>(slice: &'a [T], shape: impl Into<Shape>) -> Self {
        let data = slice.as_ptr().cast_mut().cast();
        let raw = Raw::dense(data, MemorySpace::Host, T::DTYPE, shape.into());
        assert_eq!(slice.len(), raw.shape.count(), "slice does not fill shape {:?}", raw.shape);
        View { raw, life: PhantomData }
    }

    /// # Safety
    /// `data` must point to the shape's elements at `space`, readable and unwritten for `'a`, and
    /// be aligned for `dtype`.
    pub(crate) unsafe fn from_raw(
        data: *const u8,
        space: MemorySpace,
        dtype: DType,
        shape: Shape,
    ) -> Self {
        View { raw: Raw::dense(data.cast_mut(), space, dtype, shape), life: PhantomData }
    }

    pub fn as_ptr<T: Element>(&self) -> *const T {
        self.raw.typed::<T>()
    }

    /// Bytes of all elements; panics when rows are strided.
    #[track_caller]
    pub fn dense_bytes(&self) -> usize {
        self.raw.assert_dense();
        self.raw.shape.count() * self.raw.dtype.bytes()
    }

    /// All elements in order; panics when rows are strided or the type differs.
    #[track_caller]
    pub fn as_slice<T: Element>(&self) -> &'a [T] {
        self.raw.assert_dense();
        // SAFETY: the constructor's contract covers `count` elements for `'a`; `typed` checked
        // the type.
        unsafe { std::slice::from_raw_parts(self.raw.typed::<T>(), self.raw.shape.count()) }
    }

    /// Everything under index `i` of the outermost dimension, as a slice.
    #[track_caller]
    #[inline]
    pub fn row<T: Element>(&self, i: usize) -> &'a [T] {
        let (offset, len) = self.raw.row(i);
        // SAFETY: `row` checked the index; rows are dense inside and lie within the tensor.
        unsafe { std::slice::from_raw_parts(self.raw.typed::<T>().add(offset), len) }
    }

    /// As [`row`](Self::row), without regard to the type.
    #[track_caller]
    #[inline]
    pub fn row_bytes(&self, i: usize) -> &'a [u8] {
        let (offset, len) = self.raw.row(i);
        let width = self.raw.dtype.bytes();
        self.raw.assert_on_host();
        // SAFETY: as in `row`; every element is plain bytes.
        unsafe { std::slice::from_raw_parts(self.raw.data.add(offset * width), len * width) }
    }

    /// Columns `start..start + width` of a matrix; its rows stay strided.
    #[track_caller]
    pub fn columns(self, start: usize, width: usize) -> View<'a> {
        View { raw: self.raw.columns(start, width), life: PhantomData }
    }
}

impl<'a> ViewMut<'a> {
    common!();

    /// Writes a slice as a tensor. The slice must hold exactly the shape's elements.
    pub fn of<T: Element>(slice: &'a mut [T], shape: impl Into<Shape>) -> Self {
        let raw = Raw::dense(slice.as_mut_ptr().cast(), MemorySpace::Host, T::DTYPE, shape.into());
        assert_eq!(slice.len(), raw.shape.count(), "slice does not fill shape {:?}", raw.shape);
        ViewMut { raw, life: PhantomData }
    }

    /// # Safety
    /// `data` must point to the shape's elements at `space`, exclusively borrowed for `'a`, and be
    /// aligned for `dtype`.
    pub(crate) unsafe fn from_raw(
        data: *mut u8,
        space: MemorySpace,
        dtype: DType,
        shape: Shape,
    ) -> Self {
        ViewMut { raw: Raw::dense(data, space, dtype, shape), life: PhantomData }
    }

    pub fn as_mut_ptr<T: Element>(&mut self) -> *mut T {
        self.raw.typed::<T>()
    }

    /// Outermost extent, and elements of what lies under one index of it, which must be dense.
    #[track_caller]
    pub(crate) fn rows_and_width(&self) -> (usize, usize) {
        let dims = self.raw.shape.dims();
        self.raw.debug_assert_dense_inside();
        (dims[0], dims[1..].iter().product())
    }

    /// Reads what is there.
    pub fn as_view(&self) -> View<'_> {
        View { raw: self.raw, life: PhantomData }
    }

    /// Gives up the right to write, for the rest of the borrow.
    pub fn into_view(self) -> View<'a> {
        View { raw: self.raw, life: PhantomData }
    }

    /// The same view for a shorter time.
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        ViewMut { raw: self.raw, life: PhantomData }
    }

    /// All elements in order; panics when rows are strided or the type differs.
    #[track_caller]
    pub fn as_mut_slice<T: Element>(&mut self) -> &mut [T] {
        self.raw.assert_dense();
        // SAFETY: the constructor's contract covers `count` elements exclusively; `typed` checked
        // the type.
        unsafe { std::slice::from_raw_parts_mut(self.raw.typed::<T>(), self.raw.shape.count()) }
    }

    /// As [`as_mut_slice`](Self::as_mut_slice), for the rest of the borrow.
    #[track_caller]
    pub fn into_slice<T: Element>(self) -> &'a mut [T] {
        self.raw.assert_dense();
        // SAFETY: as in `as_mut_slice`; the view, which was the only way to them, is gone.
        unsafe { std::slice::from_raw_parts_mut(self.raw.typed::<T>(), self.raw.shape.count()) }
    }

    /// Everything under index `i` of the outermost dimension, as a slice.
    #[track_caller]
    #[inline]
    pub fn row_mut<T: Element>(&mut self, i: usize) -> &mut [T] {
        let (offset, len) = self.raw.row(i);
        // SAFETY: `row` checked the index; rows are dense inside and lie within the tensor.
        unsafe { std::slice::from_raw_parts_mut(self.raw.typed::<T>().add(offset), len) }
    }

    /// As [`row_mut`](Self::row_mut), without regard to the type.
    #[track_caller]
    pub fn row_bytes_mut(&mut self, i: usize) -> &mut [u8] {
        let (offset, len) = self.raw.row(i);
        let width = self.raw.dtype.bytes();
        self.raw.assert_on_host();
        // SAFETY: as in `row_mut`; every element is plain bytes, of which any are a number.
        unsafe { std::slice::from_raw_parts_mut(self.raw.data.add(offset * width), len * width) }
    }

    /// Elements of one byte as plain bytes.
    #[track_caller]
    pub fn into_bytes(self) -> ViewMut<'a> {
        let name = self.raw.dtype.name();
        assert_eq!(self.raw.dtype.bytes(), 1, "elements of {name} have several bytes");
        ViewMut { raw: Raw { dtype: DType::U8, ..self.raw }, life: PhantomData }
    }

    /// Dense bytes as numbers of another type; they must be aligned for it and fill the shape.
    #[track_caller]
    pub fn cast_bytes(self, dtype: DType, shape: impl Into<Shape>) -> ViewMut<'a> {
        let shape = shape.into();
        self.raw.assert_dense();
        assert_eq!(self.raw.dtype, DType::U8, "bytes to be read as numbers");
        let (found, wanted) = (self.raw.shape.count(), shape.count() * dtype.bytes());
        assert_eq!(found, wanted, "bytes of {shape:?}");
        assert!(self.raw.data.addr().is_multiple_of(dtype.bytes()), "bytes are not aligned");
        ViewMut { raw: Raw::dense(self.raw.data, self.raw.space, dtype, shape), life: PhantomData }
    }

    /// Splits a matrix into column blocks of the given widths, which must fill it.
    #[track_caller]
    pub fn split_columns<const PARTS: usize>(self, widths: [usize; PARTS]) -> [ViewMut<'a>; PARTS] {
        let [_, columns] = self.raw.dims::<2>();
        assert_eq!(widths.iter().sum::<usize>(), columns, "widths {widths:?} do not fill the row");
        let mut start = 0;
        widths.map(|width| {
            let raw = self.raw.columns(start, width);
            start += width;
            ViewMut { raw, life: PhantomData }
        })
    }
}

impl Raw {
    fn dense(data: *mut u8, space: MemorySpace, dtype: DType, shape: Shape) -> Self {
        Raw { data, space, dtype, shape, strides: shape.contiguous_strides() }
    }

    #[track_caller]
    fn dims<const RANK: usize>(&self) -> [usize; RANK] {
        self.shape.dims().try_into().unwrap_or_else(|_| {
            panic!("expected {RANK} dimensions, found shape {:?}", self.shape);
        })
    }

    #[track_caller]
    #[inline]
    fn typed<T: Element>(&self) -> *mut T {
        assert_eq!(self.dtype, T::DTYPE, "view holds {}", self.dtype.name());
        self.assert_on_host();
        self.data.cast()
    }

    #[track_caller]
    #[inline]
    fn assert_on_host(&self) {
        assert!(self.space == MemorySpace::Host, "the host cannot read device memory");
    }

    #[track_caller]
    fn device_address(&self) -> u64 {
        assert!(self.space == MemorySpace::Device, "kernels of a device cannot use host memory");
        self.data.addr() as u64
    }

    /// Offset and length, in elements, of what lies under outermost index `i`.
    #[track_caller]
    #[inline]
    fn row(&self, i: usize) -> (usize, usize) {
        let dims = self.shape.dims();
        assert!(i < dims[0], "row {i} of {}", dims[0]);
        self.debug_assert_dense_inside();
        (i * self.strides[0], dims[1..].iter().product())
    }

    #[track_caller]
    fn assert_dense(&self) {
        let dims = self.shape.dims();
        self.debug_assert_dense_inside();
        let row: usize = dims[1..].iter().product();
        assert!(dims[0] <= 1 || self.strides[0] == row, "rows are strided; use row()");
    }

    /// Every constructor keeps this: only the outermost dimension can have gaps.
    #[track_caller]
    #[inline]
    fn debug_assert_dense_inside(&self) {
        if cfg!(debug_assertions) {
            let dims = self.shape.dims();
            let mut step = 1;
            for axis in (1..dims.len()).rev() {
                assert_eq!(self.strides[axis], step, "axis {axis} of {:?} is strided", self.shape);
                step *= dims[axis];
            }
        }
    }

    #[track_caller]
    fn reshape(self, shape: Shape) -> Raw {
        self.assert_dense();
        assert_eq!(self.shape.count(), shape.count(), "{:?} into {shape:?}", self.shape);
        Raw::dense(self.data, self.space, self.dtype, shape)
    }

    #[track_caller]
    fn rows(self, range: Range<usize>) -> Raw {
        let dims = self.shape.dims();
        assert!(range.start <= range.end && range.end <= dims[0], "{range:?} of {} rows", dims[0]);
        let data = self.data.wrapping_add(range.start * self.strides[0] * self.dtype.bytes());
        Raw { data, shape: self.shape.with_outer(range.len()), ..self }
    }

    #[track_caller]
    fn columns(self, start: usize, width: usize) -> Raw {
        let [rows, columns] = self.dims::<2>();
        assert!(start + width <= columns, "columns {start}+{width} of {columns}");
        let data = self.data.wrapping_add(start * self.dtype.bytes());
        Raw { data, shape: [rows, width].into(), ..self }
    }

    #[track_caller]
    fn split_heads(self, heads: usize) -> Raw {
        let [rows, columns] = self.dims::<2>();
        assert!(columns.is_multiple_of(heads), "{columns} columns into {heads} heads");
        let dim = columns / heads;
        let strides = [self.strides[0], dim, 1, 0];
        Raw { shape: [rows, heads, dim].into(), strides, ..self }
    }
}
