//! What a driver call returned, as an error with words.

use std::ffi::CStr;

use cudarc::driver::sys::{self, CUresult};

use crate::error::Error;

/// `Ok` if the call succeeded; else what was tried and what the driver says about it.
pub(super) fn check(code: CUresult, what: impl FnOnce() -> String) -> Result<(), Error> {
    if code == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    Err(Error::Cuda { what: what(), message: message_of(code) })
}

pub(super) fn message_of(code: CUresult) -> String {
    let mut text = std::ptr::null();
    // SAFETY: the driver sets `text` to one of its own constant strings, or leaves it null.
    let words = unsafe {
        if sys::cuGetErrorString(code, &raw mut text) != CUresult::CUDA_SUCCESS || text.is_null() {
            return format!("error {}", code as u32);
        }
        CStr::from_ptr(text)
    };
    format!("{} (error {})", words.to_string_lossy(), code as u32)
}
