//! Memory that a row takes in a Redis, by how Redis 7 and its allocator lay out a hash.
//!
//! A field and a value are strings with a header, in jemalloc's size classes; an entry has 32
//! bytes, and buckets have 8 to 24 bytes for each while they grow. Measured with Redis 7.0.15 and
//! rows of 1 to 128 numbers: 1 to 20 % below what is said here.

use super::use_marks::UseMarks;
use crate::config::OverflowConfig;
use crate::table_spec::TableSpec;

/// Of an entry without its strings, at most.
const ENTRY_BYTES: u64 = 32 + 24;
/// Of a mark of use: 8 bytes of time, or a count.
const MARK_BYTES: u64 = 8;

/// Of a row with what is kept of its use, at most; what replicas have is not counted.
pub fn redis_row_bytes(spec: &TableSpec, overflow: &OverflowConfig) -> u64 {
    let key_bytes = spec.key_kind.bytes();
    let mark = match UseMarks::new(overflow) {
        UseMarks::None => 0,
        UseMarks::LastUse | UseMarks::Count => mark_entry_bytes(key_bytes),
    };
    row_entry_bytes(key_bytes, spec.row_bytes()) + mark
}

fn row_entry_bytes(key_bytes: usize, row_bytes: usize) -> u64 {
    ENTRY_BYTES + string_bytes(key_bytes as u64) + string_bytes(row_bytes as u64)
}

fn mark_entry_bytes(key_bytes: usize) -> u64 {
    ENTRY_BYTES + string_bytes(key_bytes as u64) + string_bytes(MARK_BYTES)
}

/// With its header and a byte 0 at its end.
fn string_bytes(bytes: u64) -> u64 {
    let header = match bytes {
        0..252 => 3,
        252..65_531 => 5,
        _ => 9,
    };
    size_class(bytes + header + 1)
}

/// Four classes from each power of two to the next; multiples of 16 below 128.
fn size_class(bytes: u64) -> u64 {
    if bytes <= 8 {
        return 8;
    }
    let step = (bytes.next_power_of_two() / 8).max(16);
    bytes.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_jemalloc() {
        let check = |bytes: u64, want: u64| assert_eq!(size_class(bytes), want, "{bytes}");
        for (bytes, want) in [(1, 8), (9, 16), (17, 32), (68, 80), (128, 128), (129, 160)] {
            check(bytes, want);
        }
        for (bytes, want) in [(132, 160), (262, 320), (518, 640), (1025, 1280), (4096, 4096)] {
            check(bytes, want);
        }
    }

    /// Bytes a row as they were measured, with tables that had just grown and with full ones.
    #[test]
    fn estimates_are_a_little_above_what_was_measured() {
        let check = |key_bytes: usize, dim: usize, fewest: f64, most: f64| {
            let bytes = row_entry_bytes(key_bytes, dim * 4) as f64;
            assert!(most <= bytes && bytes < 1.3 * fewest, "{key_bytes} {dim}: {bytes}");
        };
        check(8, 1, 64.4, 77.3);
        check(8, 8, 104.4, 117.0);
        check(8, 16, 136.4, 149.0);
        check(8, 32, 216.4, 229.0);
        check(8, 64, 376.4, 389.0);
        check(8, 128, 696.4, 709.0);
        check(4, 16, 128.4, 141.0);
        check(4, 128, 688.4, 701.0);
        assert!((74.5..1.3 * 74.5).contains(&(mark_entry_bytes(8) as f64)));
    }
}
