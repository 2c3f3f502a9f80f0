//! The largest value that a field may have, whatever the model and the server: one table for all
//! routes.
//!
//! A count, a length or a size is compared with its row here before anything is built from it. The
//! model and the server may allow less; they say so later, with their own numbers. A field without
//! a row has the last row of its kind.

use std::ops::RangeInclusive;

/// Values at all depths of a field that is kept as JSON, such as `tools`: the largest sets of
/// tools in use have some ten thousand.
pub const MAX_VALUES: usize = 65_536;

/// Fields of one object; requests in use have some thirty.
pub const MAX_FIELDS: usize = 512;

const MAX_I32: i64 = i32::MAX as i64;

/// Whole numbers, from the least to the most. `n` and `best_of` have the server's own limit of
/// choices (`--max-choices`).
const NUMBERS: [(&str, RangeInclusive<i64>); 17] = [
    ("dimensions", 1..=1 << 20),
    ("logprobs", 0..=20),
    ("max_completion_tokens", -1..=MAX_I32),
    ("max_new_tokens", -1..=MAX_I32),
    ("max_output_tokens", 1..=MAX_I32),
    ("max_tokens", -1..=MAX_I32),
    ("n_predict", -1..=MAX_I32),
    ("no_repeat_ngram_size", 0..=1 << 20),
    ("num_beams", 1..=1 << 20),
    ("num_predict", -2..=MAX_I32),
    ("priority", -MAX_I32..=MAX_I32),
    ("prompt_logprobs", 0..=20),
    ("repeat_last_n", -1..=MAX_I32),
    ("top_k", -1..=MAX_I32),
    ("top_logprobs", 0..=20),
    ("top_n", 0..=1 << 20),
    ("", 0..=MAX_I32),
];

/// Items of a list.
const ITEMS: [(&str, usize); 14] = [
    ("bad_words", 1_024),
    ("documents", 2_048),
    ("guided_choice", 16_384),
    ("input", 1 << 24),
    ("messages", 8_192),
    ("prompt", 1 << 24),
    ("stop", 16),
    ("stop_sequences", 16),
    ("stop_token_ids", 1_024),
    ("text_1", 2_048),
    ("text_2", 2_048),
    ("tokens", 1 << 24),
    ("tools", 128),
    ("", MAX_VALUES),
];

/// Bytes of a text.
const BYTES: [(&str, usize); 8] = [
    ("bad_words", 1_024),
    ("cache_salt", 1_024),
    ("model", 1_024),
    ("previous_response_id", 128),
    ("stop", 4_096),
    ("stop_sequences", 4_096),
    ("tool_choice", 128),
    ("", usize::MAX),
];

pub fn number(path: &str) -> RangeInclusive<i64> {
    row(&NUMBERS, path).clone()
}

pub fn items(path: &str) -> usize {
    *row(&ITEMS, path)
}

pub fn bytes(path: &str) -> usize {
    *row(&BYTES, path)
}

/// The row of the field; an item's is that of its list, a nested field's that of its own name.
fn row<'a, T>(table: &'a [(&str, T)], path: &str) -> &'a T {
    let name = path.split('[').next().unwrap_or_default();
    let name = name.rsplit('.').next().unwrap_or_default();
    let (_, last) = table.last().expect("tables have rows");
    table.iter().find(|(field, _)| *field == name).map_or(last, |(_, limit)| limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_its_row_or_the_last_one() {
        assert_eq!(number("top_k"), -1..=MAX_I32);
        assert_eq!(number("min_tokens"), 0..=MAX_I32);
        assert_eq!(number("kv_cache.cache_length"), 0..=MAX_I32);
        assert_eq!((items("stop"), bytes("stop[3]")), (16, 4_096));
    }

    #[test]
    fn rows_are_sorted_and_end_with_the_rest() {
        let names = |table: Vec<&'static str>| {
            assert_eq!(table.last(), Some(&""));
            assert!(table[..table.len() - 1].is_sorted(), "{table:?}");
        };
        names(NUMBERS.iter().map(|row| row.0).collect());
        names(ITEMS.iter().map(|row| row.0).collect());
        names(BYTES.iter().map(|row| row.0).collect());
    }
}
