//! The tensors of one file of golden data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::{Dtype, SafeTensors};

use super::error::GoldenFileError;

pub struct GoldenTensors {
    path: PathBuf,
    tensors: BTreeMap<String, (Vec<usize>, Numbers)>,
}

enum Numbers {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U32(Vec<u32>),
    U8(Vec<u8>),
}

/// Two readers of a type of numbers: `$all` of a tensor, row-major; and those of a tensor that must
/// have the given dimensions.
macro_rules! numbers_of {
    ($variant:ident, $number:ident, $all:ident) => {
        pub fn $all(&self, name: &str) -> Result<&[$number], GoldenFileError> {
            match self.get(name)? {
                (_, Numbers::$variant(numbers)) => Ok(numbers),
                _ => Err(self.malformed(format!("{name} is not {}", stringify!($number)))),
            }
        }

        pub fn $number<const N: usize>(
            &self,
            name: &str,
            dims: [usize; N],
        ) -> Result<&[$number], GoldenFileError> {
            self.check_dims(name, &dims)?;
            self.$all(name)
        }
    };
}

impl GoldenTensors {
    pub fn read(path: &Path) -> Result<Self, GoldenFileError> {
        let read = |source| GoldenFileError::Read { path: path.into(), source };
        let bytes = std::fs::read(path).map_err(read)?;
        let malformed = |problem| GoldenFileError::Malformed { path: path.into(), problem };
        let file =
            SafeTensors::deserialize(&bytes).map_err(|error| malformed(error.to_string()))?;
        let mut tensors = BTreeMap::new();
        for (name, view) in file.tensors() {
            let numbers = match view.dtype() {
                Dtype::F32 => Numbers::F32(numbers(view.data(), f32::from_le_bytes)),
                Dtype::F64 => Numbers::F64(numbers(view.data(), f64::from_le_bytes)),
                Dtype::I32 => Numbers::I32(numbers(view.data(), i32::from_le_bytes)),
                Dtype::I64 => Numbers::I64(numbers(view.data(), i64::from_le_bytes)),
                Dtype::U32 => Numbers::U32(numbers(view.data(), u32::from_le_bytes)),
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

    pub fn shape(&self, name: &str) -> Result<&[usize], GoldenFileError> {
        self.get(name).map(|(shape, _)| shape.as_slice())
    }

    /// The dimensions of a tensor that has `N` of them.
    pub fn dims<const N: usize>(&self, name: &str) -> Result<[usize; N], GoldenFileError> {
        let shape = self.shape(name)?;
        shape.try_into().map_err(|_| self.malformed(format!("{name} has the shape {shape:?}")))
    }

    numbers_of!(F32, f32, f32s);
    numbers_of!(F64, f64, f64s);
    numbers_of!(I32, i32, i32s);
    numbers_of!(I64, i64, i64s);
    numbers_of!(U32, u32, u32s);
    numbers_of!(U8, u8, u8s);

    pub fn malformed(&self, problem: String) -> GoldenFileError {
        GoldenFileError::Malformed { path: self.path.clone(), problem }
    }

    fn check_dims(&self, name: &str, dims: &[usize]) -> Result<(), GoldenFileError> {
        match self.shape(name)? {
            shape if shape == dims => Ok(()),
            shape => Err(self.malformed(format!("{name} has the shape {shape:?}, not {dims:?}"))),
        }
    }

    fn get(&self, name: &str) -> Result<&(Vec<usize>, Numbers), GoldenFileError> {
        self.tensors.get(name).ok_or_else(|| self.malformed(format!("it has no tensor {name}")))
    }
}

fn numbers<const N: usize, T>(bytes: &[u8], number: fn([u8; N]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|bytes| number(*bytes)).collect()
}
