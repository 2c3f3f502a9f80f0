//! Texts and bytes on their way to the library and back.

use std::ffi::{CString, c_char};
use std::slice;

use crate::rocks_error::RocksError;

/// For the library, whose names end with a zero. `attempt` begins the message if one is inside.
pub fn c_text(attempt: &str, name: &[u8]) -> Result<CString, RocksError> {
    CString::new(name).map_err(|error| {
        let place = error.nul_position();
        RocksError::invalid(attempt, &format!("a name has a zero byte at {place}"))
    })
}

/// # Safety
/// Unless `length` is 0, `bytes` are `length` bytes that nobody writes or frees during `'a`.
pub unsafe fn c_bytes<'a>(bytes: *const c_char, length: usize) -> &'a [u8] {
    match length {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { slice::from_raw_parts(bytes.cast(), length) },
    }
}

/// RocksDB keeps lengths of keys and values in 32 bits.
pub fn check_length(attempt: impl FnOnce() -> String, bytes: &[u8]) -> Result<(), RocksError> {
    match u32::try_from(bytes.len()) {
        Ok(_) => Ok(()),
        Err(_) => {
            let reason = format!("{} bytes are more than a key or a value has", bytes.len());
            Err(RocksError::invalid(&attempt(), &reason))
        }
    }
}
