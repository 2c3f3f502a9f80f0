//! Looking many keys of one length up at once.
//!
//! There are two ways with one result: the library's batched lookup, which goes through files and
//! blocks once for all keys and gives values where they lie, and the older one, which copies each.

use std::ffi::c_char;
use std::ptr::null_mut;

use crate::c_bytes::c_bytes;
use crate::family_handle::FamilyHandle;
use crate::functions::Functions;
use crate::objects::PinnedObject;
use crate::open_db::OpenDb;
use crate::rocks_error::RocksError;

/// Keys of one call to the library. Until the next call their values stay in memory, each with its
/// block of 4 KiB: half of a block cache of 8 MiB. Calls of 16 times as many keys were slower.
const CALL_KEYS: usize = 1024;

/// Of the keys, said to the library's batched lookup.
const ARE_SORTED: bool = true;

/// See [`Family::multi_get`](crate::Family::multi_get).
pub fn multi_get(
    open: &OpenDb,
    family: &FamilyHandle,
    keys: &[u8],
    key_bytes: usize,
    found: &mut dyn FnMut(usize, &[u8]),
) -> Result<(), RocksError> {
    if key_bytes == 0 || !keys.len().is_multiple_of(key_bytes) {
        let reason = format!("{} bytes are no keys of {key_bytes} bytes each", keys.len());
        return Err(RocksError::invalid(&open.attempt("look keys up in"), &reason));
    }
    let key = |place: usize| &keys[place * key_bytes..][..key_bytes];
    let order = order_of(keys, key_bytes);
    let lengths = vec![key_bytes; CALL_KEYS.min(order.len())];
    let mut first_error = None;
    for places in order.chunks(CALL_KEYS) {
        let keys: Vec<_> = places.iter().map(|&place| key(place).as_ptr().cast()).collect();
        let mut answers = Answers::new(open.functions(), keys.len());
        // SAFETY: each key has `key_bytes` bytes in `keys`, which is borrowed; database and family
        // are open as long as they are.
        unsafe { answers.fill(open, family, &keys, &lengths[..keys.len()]) };
        for (index, &place) in places.iter().enumerate() {
            if let Some(value) = answers.value(index) {
                found(place, value);
            } else if first_error.is_none() {
                first_error = answers.take_error(open, index);
            }
        }
    }
    first_error.map_or(Ok(()), Err)
}

/// The places of the keys in ascending order of their bytes, which is that of files and blocks. The
/// library would sort them too, but not what it keeps for each key.
fn order_of(keys: &[u8], key_bytes: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..keys.len() / key_bytes).collect();
    if !keys.chunks_exact(key_bytes).is_sorted() {
        order.sort_unstable_by_key(|&place| &keys[place * key_bytes..][..key_bytes]);
    }
    order
}

/// What the library gave for each key of a call. Given back to it when dropped.
struct Answers<'a> {
    functions: &'a Functions,
    /// Null where there is none.
    errors: Vec<*mut c_char>,
    values: Values,
}

/// Null for keys that are not there.
enum Values {
    Pinned(Vec<*mut PinnedObject>),
    Copied { values: Vec<*mut c_char>, lengths: Vec<usize> },
}

impl<'a> Answers<'a> {
    fn new(functions: &'a Functions, keys: usize) -> Self {
        let values = match functions.batched_multi_get_cf {
            Some(_) => Values::Pinned(vec![null_mut(); keys]),
            None => Values::Copied { values: vec![null_mut(); keys], lengths: vec![0; keys] },
        };
        Answers { functions, errors: vec![null_mut(); keys], values }
    }

    /// # Safety
    /// `keys` and `lengths` are as many as the answers were made for, and say where keys lie, in
    /// ascending order of their bytes.
    unsafe fn fill(
        &mut self,
        open: &OpenDb,
        family: &FamilyHandle,
        keys: &[*const c_char],
        lengths: &[usize],
    ) {
        let (db, options) = (open.object.as_ptr(), open.reads.as_ptr());
        match (&mut self.values, self.functions.batched_multi_get_cf) {
            // SAFETY: the caller's promise; values and errors have room for each key.
            (Values::Pinned(values), Some(multi_get)) => unsafe {
                multi_get(
                    db,
                    options,
                    family.as_ptr(),
                    keys.len(),
                    keys.as_ptr(),
                    lengths.as_ptr(),
                    values.as_mut_ptr(),
                    self.errors.as_mut_ptr(),
                    ARE_SORTED,
                );
            },
            (Values::Copied { values, lengths: value_lengths }, _) => {
                let families = vec![family.as_ptr().cast_const(); keys.len()];
                // SAFETY: as above; there is a family for each key.
                unsafe {
                    (self.functions.multi_get_cf)(
                        db,
                        options,
                        families.as_ptr(),
                        keys.len(),
                        keys.as_ptr(),
                        lengths.as_ptr(),
                        values.as_mut_ptr(),
                        value_lengths.as_mut_ptr(),
                        self.errors.as_mut_ptr(),
                    );
                }
            }
            (Values::Pinned(_), None) => unreachable!("made by `new` for the function there is"),
        }
    }

    fn value(&self, index: usize) -> Option<&[u8]> {
        match &self.values {
            Values::Pinned(values) => {
                let pinned = values[index];
                if pinned.is_null() {
                    return None;
                }
                let mut length = 0;
                // SAFETY: the library made it for this key; it is destroyed with `self`, which is
                // borrowed by the slice.
                Some(unsafe {
                    let bytes = (self.functions.pinnableslice_value)(pinned, &raw mut length);
                    c_bytes(bytes, length)
                })
            }
            Values::Copied { values, lengths } => {
                let bytes = values[index];
                // SAFETY: the library copied so many bytes there; they are freed with `self`.
                (!bytes.is_null()).then(|| unsafe { c_bytes(bytes, lengths[index]) })
            }
        }
    }

    fn take_error(&mut self, open: &OpenDb, index: usize) -> Option<RocksError> {
        let text = std::mem::replace(&mut self.errors[index], null_mut());
        // SAFETY: a text that the library made for this key, or null; taken out above, so it is
        // freed once.
        let text = unsafe { open.library().take_text(text) }?;
        Some(RocksError::of(&open.attempt("look a key up in"), &text))
    }
}

impl Drop for Answers<'_> {
    fn drop(&mut self) {
        let free = self.functions.free;
        match &self.values {
            Values::Pinned(values) => {
                for &value in values.iter().filter(|value| !value.is_null()) {
                    // SAFETY: the library made it for us; no slice of it is left.
                    unsafe { (self.functions.pinnableslice_destroy)(value) };
                }
            }
            Values::Copied { values, .. } => {
                for &value in values.iter().filter(|value| !value.is_null()) {
                    // SAFETY: as above.
                    unsafe { free(value.cast()) };
                }
            }
        }
        for &error in self.errors.iter().filter(|error| !error.is_null()) {
            // SAFETY: as above.
            unsafe { free(error.cast()) };
        }
    }
}

#[cfg(test)]
mod tests;
