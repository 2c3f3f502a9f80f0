//! Small damage to a good input, from a seed: what fuzzers do, without their knowledge of the code.

use std::ops::Range;

use serde_json::{Deserializer, Value, json};
use terrace_testkit::Rng;

/// The input with one to four things changed.
pub fn mutated(input: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..1 + rng.below(4) {
        if bytes.is_empty() {
            return bytes;
        }
        change(&mut bytes, rng);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(bytes.len());
    let rest = bytes.len() - at;
    match rng.below(10) {
        0 => bytes.truncate(at),
        1 | 2 => bytes[at] ^= 1 << rng.below(8),
        3 => {
            let inserted = fragment(rng);
            let count = inserted.len().min(rest);
            bytes[at..at + count].copy_from_slice(&inserted[..count]);
        }
        4 => drop(bytes.splice(at..at, fragment(rng))),
        5 => drop(bytes.drain(at..at + rest.min(1 + rng.below(64)))),
        6 => {
            let copied = bytes[at..at + rest.min(1 + rng.below(64))].to_vec();
            let to = rng.below(bytes.len());
            bytes.splice(to..to, copied);
        }
        // Bytes changed at random are seldom JSON still; this reaches what lies behind.
        _ => swap_json_value(bytes, at, rng),
    }
}

/// Counts and texts that a careless reader would believe.
fn fragment(rng: &mut Rng) -> Vec<u8> {
    let counts = [0, 1, 1 << 31, 1 << 40, 1 << 62, u64::MAX - 7, u64::MAX];
    let texts = ["18446744073709551615", "-1", "1e999", "null", "[[[[[[", "\"", "{{", "%}", "\n"];
    let number = rng.below(counts.len() + texts.len());
    match counts.get(number) {
        Some(count) => count.to_le_bytes().into(),
        None => texts[number - counts.len()].into(),
    }
}

/// Replaces a value of the JSON that begins next after `at`, if there is any.
fn swap_json_value(bytes: &mut Vec<u8>, at: usize, rng: &mut Rng) {
    let Some((range, mut json)) = json_from(bytes, at) else { return };
    let values = [
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(4_294_967_295u64),
        json!(u64::MAX),
        json!(0.5),
        json!(1e300),
        json!(""),
        json!("####"),
        json!("BPE"),
        json!([]),
        json!({}),
        json!(["a", "b"]),
        json!({ "a": 0 }),
    ];
    let drawn = rng.below(visit(&mut json, &mut |_| {}));
    let mut number = 0;
    visit(&mut json, &mut |found| {
        if number == drawn {
            *found = rng.pick(&values).clone();
        }
        number += 1;
    });
    replace(bytes, range, json.to_string().as_bytes());
}

/// The first object or list at or after `at`, and where it stands.
fn json_from(bytes: &[u8], at: usize) -> Option<(Range<usize>, Value)> {
    let begins = |&at: &usize| matches!(bytes[at], b'{' | b'[');
    let candidates = (at..bytes.len()).chain(0..at).filter(begins).take(16);
    let mut found = candidates.filter_map(|start| {
        let mut values = Deserializer::from_slice(&bytes[start..]).into_iter::<Value>();
        let value = values.next()?.ok()?;
        Some((start..start + values.byte_offset(), value))
    });
    found.next()
}

/// A length in front of the JSON, as safetensors have it, is kept true.
fn replace(bytes: &mut Vec<u8>, range: Range<usize>, json: &[u8]) {
    let length = range.start.checked_sub(8).map(|at| at..range.start);
    if let Some(length) = length
        && bytes[length.clone()] == (range.len() as u64).to_le_bytes()
    {
        bytes[length].copy_from_slice(&(json.len() as u64).to_le_bytes());
    }
    bytes.splice(range, json.iter().copied());
}

/// Visits every value of a JSON tree and counts them.
fn visit(json: &mut Value, visitor: &mut impl FnMut(&mut Value)) -> usize {
    let below: usize = match json {
        Value::Array(values) => values.iter_mut().map(|value| visit(value, visitor)).sum(),
        Value::Object(values) => values.values_mut().map(|value| visit(value, visitor)).sum(),
        _ => 0,
    };
    visitor(json);
    below + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_keeps_its_length() {
        let header = br#"{"a": [1]}"#;
        let mut file = [&(header.len() as u64).to_le_bytes()[..], header, b"data"].concat();
        let (range, json) = json_from(&file, 0).expect("JSON after eight bytes");
        assert_eq!((range.clone(), json), (8..18, json!({ "a": [1] })));
        replace(&mut file, range, b"{}");
        assert_eq!(file, b"\x02\0\0\0\0\0\0\0{}data");
    }

    #[test]
    fn a_seed_gives_the_same_damage() {
        let input = br#"POST / {"a": 1}"#;
        let damage = |seed: u64| (0..50).map(|i| mutated(input, &mut Rng::new(seed + i))).collect();
        let (first, again): (Vec<_>, Vec<_>) = (damage(1), damage(1));
        assert_eq!(first, again);
        assert!(first.iter().filter(|bytes| bytes.as_slice() != input).count() > 40);
    }
}
