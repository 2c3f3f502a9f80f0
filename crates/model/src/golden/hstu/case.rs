//! One case of the golden data: its parameters and tensors.

use serde_json::Value;
use terrace_golden::{GoldenFolder, GoldenTensors};

use crate::error::Error;
use crate::hstu::{NormTensors, owned_matrix};
use terrace_kernels::Matrix;

pub(super) struct Case {
    pub name: String,
    params: Value,
    pub tensors: GoldenTensors,
    pub tolerance: f32,
}

impl Case {
    /// All cases whose names begin so.
    pub fn all(folder: &GoldenFolder, prefix: &str) -> Result<Vec<Case>, Error> {
        let listed = folder.entries().find(|(name, _)| *name == "cases").map(|(_, cases)| cases);
        let cases = listed.and_then(Value::as_array).into_iter().flatten();
        let open = |about: &Value| -> Option<Result<Case, Error>> {
            let name = about["name"].as_str().filter(|name| name.starts_with(prefix))?;
            let file = about["file"].as_str().unwrap_or_default();
            let tolerance = about["suggested_abs_tol"].as_f64().unwrap_or(0.0) as f32;
            Some(folder.tensors(file).map_err(Error::from).map(|tensors| Case {
                name: name.to_owned(),
                params: about["params"].clone(),
                tensors,
                tolerance,
            }))
        };
        cases.filter_map(open).collect()
    }

    pub fn has(&self, param: &str) -> bool {
        !self.params[param].is_null()
    }

    pub fn count(&self, param: &str) -> Result<usize, Error> {
        let number = self.params[param].as_u64().map(|number| number as usize);
        number.ok_or_else(|| self.lacks(param))
    }

    /// 0 where there is none.
    pub fn count_or_zero(&self, param: &str) -> usize {
        self.params[param].as_u64().map_or(0, |number| number as usize)
    }

    pub fn number(&self, param: &str) -> Result<f64, Error> {
        self.params[param].as_f64().ok_or_else(|| self.lacks(param))
    }

    pub fn flag(&self, param: &str) -> Result<bool, Error> {
        self.params[param].as_bool().ok_or_else(|| self.lacks(param))
    }

    pub fn text(&self, param: &str) -> Result<&str, Error> {
        self.params[param].as_str().ok_or_else(|| self.lacks(param))
    }

    pub fn counts(&self, param: &str) -> Result<Vec<usize>, Error> {
        let list = self.params[param].as_array().ok_or_else(|| self.lacks(param))?;
        let counts = list.iter().map(|number| number.as_u64().map(|number| number as usize));
        counts.collect::<Option<_>>().ok_or_else(|| self.lacks(param))
    }

    pub fn texts(&self, param: &str) -> Result<Vec<String>, Error> {
        let list = self.params[param].as_array().ok_or_else(|| self.lacks(param))?;
        let texts = list.iter().map(|text| text.as_str().map(str::to_owned));
        texts.collect::<Option<_>>().ok_or_else(|| self.lacks(param))
    }

    /// Integers of either width, as counts.
    pub fn integers(&self, tensor: &str) -> Result<Vec<usize>, Error> {
        let tensors = &self.tensors;
        Ok(match tensors.i32s(tensor) {
            Ok(numbers) => numbers.iter().map(|number| *number as usize).collect(),
            Err(_) => tensors.i64s(tensor)?.iter().map(|number| *number as usize).collect(),
        })
    }

    /// The lengths between offsets.
    pub fn lengths(&self, tensor: &str) -> Result<Vec<usize>, Error> {
        Ok(self.integers(tensor)?.windows(2).map(|pair| pair[1] - pair[0]).collect())
    }

    pub fn matrix(&self, tensor: &str) -> Result<Matrix, Error> {
        let dims = self.tensors.dims::<2>(tensor)?;
        owned_matrix(self.tensors.f32s(tensor)?, dims)
    }

    pub fn norm(&self, weight: &str, bias: &str) -> Result<NormTensors, Error> {
        let vector = |name: &str| self.tensors.f32s(name).map(<[f32]>::to_vec);
        Ok(NormTensors { weight: vector(weight)?, bias: vector(bias)? })
    }

    fn lacks(&self, param: &str) -> Error {
        self.tensors.malformed(format!("{} has no {param} that can be used", self.name)).into()
    }
}
