//! An array where the ops compute, and its numbers on the host.

use std::borrow::Cow;

use half::{bf16, f16};
use terrace_device::{DType, Device, Element, PooledBuffer, Shape, View, ViewMut};
use terrace_kernels::TuneOps;

use crate::error::Error;

pub struct Tensor {
    memory: PooledBuffer,
    dtype: DType,
    shape: Shape,
}

impl Tensor {
    /// f32 zeros; `what` names the array in the error when there is not enough memory.
    pub fn zeros(
        ops: &TuneOps<'_>,
        what: &'static str,
        shape: impl Into<Shape>,
    ) -> Result<Self, Error> {
        Self::zeros_of(ops, what, DType::F32, shape)
    }

    pub fn zeros_of(
        ops: &TuneOps<'_>,
        what: &'static str,
        dtype: DType,
        shape: impl Into<Shape>,
    ) -> Result<Self, Error> {
        let mut tensor = Self::taken(ops, what, dtype, shape.into())?;
        ops.clear(tensor.view_mut());
        Ok(tensor)
    }

    /// f32 that the next op writes, all of it.
    pub fn unset(
        ops: &TuneOps<'_>,
        what: &'static str,
        shape: impl Into<Shape>,
    ) -> Result<Self, Error> {
        Self::unset_of(ops, what, DType::F32, shape)
    }

    /// As [`unset`](Self::unset), of activations.
    pub fn unset_act(
        ops: &TuneOps<'_>,
        what: &'static str,
        shape: impl Into<Shape>,
    ) -> Result<Self, Error> {
        Self::unset_of(ops, what, ops.activation(), shape)
    }

    pub fn unset_of(
        ops: &TuneOps<'_>,
        what: &'static str,
        dtype: DType,
        shape: impl Into<Shape>,
    ) -> Result<Self, Error> {
        let mut tensor = Self::taken(ops, what, dtype, shape.into())?;
        let is_poisoned = cfg!(debug_assertions) && dtype == DType::F32;
        if is_poisoned && matches!(ops.device(), Device::Cpu) {
            tensor.view_mut().into_slice().fill(f32::NAN);
        }
        Ok(tensor)
    }

    pub fn of<T: Element>(
        ops: &TuneOps<'_>,
        what: &'static str,
        numbers: &[T],
        shape: impl Into<Shape>,
    ) -> Result<Self, Error> {
        let mut tensor = Self::taken(ops, what, T::DTYPE, shape.into())?;
        ops.write(tensor.view_mut(), numbers)?;
        Ok(tensor)
    }

    /// Numbers of the host as activations, `[rows, dim]` or what can be seen as such.
    pub fn act_of(
        ops: &TuneOps<'_>,
        what: &'static str,
        numbers: &[f32],
        shape: impl Into<Shape>,
    ) -> Result<Self, Error> {
        let exact = Self::of(ops, what, numbers, shape)?;
        if ops.activation() == DType::F32 {
            return Ok(exact);
        }
        let (shape, flat) = (exact.shape, [1, numbers.len()]);
        let mut tensor = Self::taken(ops, what, ops.activation(), shape)?;
        ops.copy(exact.as_shape(flat), tensor.as_shape_mut(flat));
        Ok(tensor)
    }

    pub fn view(&self) -> View<'_> {
        self.memory.buffer().view(self.dtype, self.shape)
    }

    pub fn view_mut(&mut self) -> ViewMut<'_> {
        self.memory.buffer_mut().view_mut(self.dtype, self.shape)
    }

    /// The same numbers under another shape of as many.
    pub fn as_shape(&self, shape: impl Into<Shape>) -> View<'_> {
        self.view().reshape(shape)
    }

    pub fn as_shape_mut(&mut self, shape: impl Into<Shape>) -> ViewMut<'_> {
        self.view_mut().reshape(shape)
    }

    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The numbers on the host, whatever the type; a copy where the host cannot reach them.
    pub fn numbers(&self, ops: &TuneOps<'_>) -> Result<Cow<'_, [f32]>, Error> {
        if matches!(ops.device(), Device::Cpu) {
            return Ok(Cow::Borrowed(self.view().as_slice()));
        }
        let numbers = match self.dtype {
            DType::Bf16 => self.read::<bf16>(ops)?.into_iter().map(bf16::to_f32).collect(),
            DType::F16 => self.read::<f16>(ops)?.into_iter().map(f16::to_f32).collect(),
            _ => self.read(ops)?,
        };
        Ok(Cow::Owned(numbers))
    }

    /// Numbers of i32 on the host.
    pub fn ids(&self, ops: &TuneOps<'_>) -> Result<Vec<i32>, Error> {
        self.read(ops)
    }

    /// Changes f32 numbers on the host.
    pub fn change(&mut self, ops: &TuneOps<'_>, f: impl FnOnce(&mut [f32])) -> Result<(), Error> {
        if matches!(ops.device(), Device::Cpu) {
            f(self.view_mut().as_mut_slice());
            return Ok(());
        }
        let mut numbers = self.read(ops)?;
        f(&mut numbers);
        Ok(ops.write(self.view_mut(), &numbers)?)
    }

    /// The numbers, which the host reaches.
    pub fn on_host(&self) -> &[f32] {
        self.view().as_slice()
    }

    /// As [`on_host`](Self::on_host), to be changed.
    pub fn on_host_mut(&mut self) -> &mut [f32] {
        self.view_mut().into_slice()
    }

    fn read<T: Element + Default>(&self, ops: &TuneOps<'_>) -> Result<Vec<T>, Error> {
        let mut numbers = vec![T::default(); self.shape.count()];
        ops.read(self.view(), &mut numbers)?;
        Ok(numbers)
    }

    fn taken(
        ops: &TuneOps<'_>,
        what: &'static str,
        dtype: DType,
        shape: Shape,
    ) -> Result<Self, Error> {
        let memory = ops.memory().take(shape.count() * dtype.bytes(), what)?;
        Ok(Tensor { memory, dtype, shape })
    }
}
