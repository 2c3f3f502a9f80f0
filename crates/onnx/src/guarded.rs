//! Calls into the library that reads and computes ONNX files, with every failure as a text.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tract_onnx::prelude::TractResult;

/// What the library says; also where a file makes it panic. What `run` changes is not used after a
/// failure.
pub fn guarded<T>(run: impl FnOnce() -> TractResult<T>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("the library for ONNX failed: {}", text.unwrap_or("no reason given")))
        }
    }
}
