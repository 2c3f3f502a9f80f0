//! Asking for memory before it is needed: a hint, without which all is the same and later.

/// Bytes that come together.
const LINE_BYTES: usize = 64;

/// Begins to bring a slice into the caches; nobody waits for it. For slices of a few lines that are
/// read soon, among others that are asked for meanwhile.
#[inline(always)]
pub fn prefetch<T>(slice: &[T]) {
    let (start, bytes) = (slice.as_ptr().cast::<u8>(), size_of_val(slice));
    for offset in (0..bytes).step_by(LINE_BYTES) {
        fetch_line(start.wrapping_add(offset));
    }
    if bytes > 0 {
        // The last byte may lie in a line that no step was in.
        fetch_line(start.wrapping_add(bytes - 1));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn fetch_line(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint reads nothing that a program could see, and never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn fetch_line(address: *const u8) {
    // SAFETY: a hint reads nothing that a program could see, and never faults.
    unsafe {
        std::arch::asm!(
            "prfm pldl1keep, [{address}]",
            address = in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
fn fetch_line(_: *const u8) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_slice_may_be_asked_for() {
        let numbers = vec![7u64; 1000];
        for end in [0, 1, 7, 8, 9, 1000] {
            prefetch(&numbers[..end]);
        }
        prefetch::<u8>(&[]);
        prefetch(&[(); 3]);
        assert!(numbers.iter().all(|number| *number == 7));
    }
}
