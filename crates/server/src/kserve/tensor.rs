//! A named tensor of a request or a response.
//!
//! Invariant: it has as many elements as its shape says.

use bytes::Bytes;

use super::datatype::Datatype;
use super::infer_error::InferError;
use super::shape::elements_of;
use super::tensor_data::TensorData;

#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    name: String,
    shape: Vec<i64>,
    data: TensorData,
}

impl Tensor {
    pub fn new(
        name: impl Into<String>,
        shape: Vec<i64>,
        data: TensorData,
    ) -> Result<Self, InferError> {
        let name = name.into();
        let (elements, found) = (elements_of(&name, &shape)?, data.len());
        if elements != found {
            let message = format!(
                "{name:?} has {found} elements, and its shape {shape:?} says that there are \
                 {elements}"
            );
            return Err(InferError::invalid(message));
        }
        Ok(Self { name, shape, data })
    }

    /// Of bytes as the wire has them.
    pub fn from_raw(
        name: String,
        datatype: Datatype,
        shape: Vec<i64>,
        raw: &Bytes,
    ) -> Result<Self, InferError> {
        let elements = elements_of(&name, &shape)?;
        match TensorData::from_raw(datatype, raw, elements) {
            Ok(data) => Ok(Self { name, shape, data }),
            Err(why) => {
                Err(InferError::invalid(format!("{name:?} has the shape {shape:?}, and {why}")))
            }
        }
    }

    /// A list of elements, as long as it is.
    pub fn list(name: impl Into<String>, data: TensorData) -> Self {
        let length = i64::try_from(data.len()).expect("memory has fewer elements");
        Self { name: name.into(), shape: vec![length], data }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn datatype(&self) -> Datatype {
        self.data.datatype()
    }

    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    pub fn data(&self) -> &TensorData {
        &self.data
    }

    pub fn into_data(self) -> TensorData {
        self.data
    }

    /// The elements of one that must be INT64.
    pub fn into_int64(self) -> Result<Vec<i64>, InferError> {
        match self.data {
            TensorData::Int64(numbers) => Ok(numbers),
            data => Err(wrong_type(&self.name, data.datatype(), "INT64")),
        }
    }

    /// The elements of one that must be INT32.
    pub fn into_int32(self) -> Result<Vec<i32>, InferError> {
        match self.data {
            TensorData::Int32(numbers) => Ok(numbers),
            data => Err(wrong_type(&self.name, data.datatype(), "INT32")),
        }
    }

    /// The elements of one that must be FP32.
    pub fn into_fp32(self) -> Result<Vec<f32>, InferError> {
        match self.data {
            TensorData::Fp32(numbers) => Ok(numbers),
            data => Err(wrong_type(&self.name, data.datatype(), "FP32")),
        }
    }

    /// Keys of an embedding table: INT64, or UINT32 where they are that narrow.
    pub fn into_keys(self) -> Result<Vec<i64>, InferError> {
        match self.data {
            TensorData::Int64(keys) => Ok(keys),
            TensorData::Uint32(keys) => Ok(keys.into_iter().map(i64::from).collect()),
            data => Err(wrong_type(&self.name, data.datatype(), "INT64 or UINT32")),
        }
    }
}

fn wrong_type(name: &str, found: Datatype, wanted: &str) -> InferError {
    let found = found.name();
    InferError::invalid(format!("{name:?} has the datatype {found}; the model takes {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_says_how_many_elements_there_are() {
        let numbers = || TensorData::Fp32(vec![0.0; 6]);
        for shape in [vec![6], vec![2, 3], vec![1, 6, 1]] {
            assert!(Tensor::new("T", shape, numbers()).is_ok());
        }
        let error = Tensor::new("T", vec![2, 4], numbers()).expect_err("eight are not six");
        let want = "\"T\" has 6 elements, and its shape [2, 4] says that there are 8";
        assert_eq!(error, InferError::invalid(want));
        assert_eq!(Tensor::list("T", numbers()).shape(), [6]);
        let error = Tensor::from_raw("T".into(), Datatype::Int16, vec![2], &Bytes::new());
        let want = "\"T\" has the shape [2], and its data has 0 bytes, and 2 elements of INT16 \
                    have 2 each";
        assert_eq!(error, Err(InferError::invalid(want)));
    }

    #[test]
    fn another_datatype_is_named() {
        let keys = Tensor::list("KEYS", TensorData::Uint32(vec![1, u32::MAX]));
        assert_eq!(keys.clone().into_keys(), Ok(vec![1, i64::from(u32::MAX)]));
        let want = "\"KEYS\" has the datatype UINT32; the model takes INT64";
        assert_eq!(keys.into_int64(), Err(InferError::invalid(want)));
    }
}
