//! The tensors of one file of golden data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};

use super::error::GoldenError;
use super::placed::{f32s, i32s};

pub struct GoldenTensors {
    path: PathBuf,
    tensors: BTreeMap<String, (Vec<usize>, Numbers)>,
}

enum Numbers {
    F32(Vec<f32>),
    I32(Vec<i32>),
    U8(Vec<u8>),
}

impl GoldenTensors {
    pub(super) fn read(path: &Path) -> Result<Self, GoldenError> {
        let read = |source| GoldenError::Read { path: path.into(), source };
        let bytes = std::fs::read(path).map_err(read)?;
        let malformed = |problem: String| GoldenError::Malformed { path: path.into(), problem };
        let file =
            SafeTensors::deserialize(&bytes).map_err(|error| malformed(error.to_string()))?;
        let mut tensors = BTreeMap::new();
        for (name, view) in file.tensors() {
            let numbers = match view.dtype() {
                Dtype::F32 => Numbers::F32(f32s(view.data())),
                Dtype::I32 => Numbers::I32(i32s(view.data())),
                Dtype::U8 => Numbers::U8(view.data().to_vec()),
                other => return Err(malformed(format!("{name} is stored as {other}"))),
            };
            tensors.insert(name, (view.shape().to_vec(), numbers));
        }
        Ok(GoldenTensors { path: path.into(), tensors })
    }

    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The dimensions of a tensor that has `N` of them.
    pub fn dims<const N: usize>(&self, name: &str) -> Result<[usize; N], GoldenError> {
        let (shape, _) = self.get(name)?;
        let shape = shape.as_slice();
        shape.try_into().map_err(|_| self.malformed(format!("{name} has the shape {shape:?}")))
    }

    /// The numbers of a tensor that must have these dimensions.
    pub fn f32<const N: usize>(&self, name: &str, dims: [usize; N]) -> Result<&[f32], GoldenError> {
        match self.shaped(name, &dims)? {
            Numbers::F32(numbers) => Ok(numbers),
            _ => Err(self.malformed(format!("{name} is not f32"))),
        }
    }

    pub fn i32<const N: usize>(&self, name: &str, dims: [usize; N]) -> Result<&[i32], GoldenError> {
        match self.shaped(name, &dims)? {
            Numbers::I32(numbers) => Ok(numbers),
            _ => Err(self.malformed(format!("{name} is not i32"))),
        }
    }

    pub fn u8<const N: usize>(&self, name: &str, dims: [usize; N]) -> Result<&[u8], GoldenError> {
        match self.shaped(name, &dims)? {
            Numbers::U8(numbers) => Ok(numbers),
            _ => Err(self.malformed(format!("{name} is not u8"))),
        }
    }

    fn shaped(&self, name: &str, dims: &[usize]) -> Result<&Numbers, GoldenError> {
        let (shape, numbers) = self.get(name)?;
        if shape != dims {
            return Err(self.malformed(format!("{name} has the shape {shape:?}, not {dims:?}")));
        }
        Ok(numbers)
    }

    pub fn malformed(&self, problem: String) -> GoldenError {
        GoldenError::Malformed { path: self.path.clone(), problem }
    }

    fn get(&self, name: &str) -> Result<&(Vec<usize>, Numbers), GoldenError> {
        self.tensors.get(name).ok_or_else(|| self.malformed(format!("it has no tensor {name}")))
    }
}
