//! The payload against the vectors of the original, and against bytes that nobody meant.

use proptest::prelude::*;
use serde_json::Value;
use terrace_testkit::golden_set;

use super::*;

type Row = (i64, Vec<f32>);

fn messages(key_kind: KeyKind, dim: usize, bytes_most: usize, rows: &[Row]) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let rows = rows.iter().map(|(key, row)| (*key, row.as_slice()));
    let emit = |message: &[u8]| {
        messages.push(message.to_vec());
        Ok(())
    };
    UpdateMessage::encode(key_kind, dim, bytes_most, rows, emit).expect("rows that fit");
    messages
}

/// With the bits of the floats, so that NaNs compare.
fn rows_of(payload: &[u8], key_kind: KeyKind) -> Vec<(i64, Vec<u32>)> {
    match UpdateMessage::decode(payload, key_kind) {
        Ok(UpdateMessage::Rows(rows)) => {
            let bits = rows.iter().map(|(key, row)| (key, row.map(f32::to_bits).collect()));
            let all: Vec<_> = bits.collect();
            assert_eq!(all.len(), rows.count());
            all
        }
        other => panic!("{other:?}"),
    }
}

fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|float| float.to_bits()).collect()
}

fn unhex(text: &Value) -> Vec<u8> {
    let digits = text.as_str().expect("text").as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).expect("ascii"), 16);
    digits.chunks(2).map(|pair| byte(pair).expect("hex digits")).collect()
}

#[test]
fn payloads_are_those_of_the_original() {
    let path = golden_set("ctr").join("hps_vectors.json");
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let golden: Value = serde_json::from_slice(&text).expect("json");
    let kafka = &golden["kafka"];
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let vectors: Vec<Vec<f32>> = list(&kafka["vectors"])
        .iter()
        .map(|row| list(row).iter().map(|float| float.as_f64().expect("a float") as f32).collect())
        .collect();
    for (key_kind, keys, payload) in [
        (KeyKind::I64, "keys_i64", "payload_i64_hex"),
        (KeyKind::U32, "keys_u32", "payload_u32_hex"),
    ] {
        let keys = list(&kafka[keys]);
        let keys = keys.iter().map(|key| key.as_i64().expect("an integer"));
        let rows: Vec<Row> = keys.zip(vectors.iter().cloned()).collect();
        let payload = unhex(&kafka[payload]);
        assert_eq!(messages(key_kind, 4, 256 << 10, &rows), std::slice::from_ref(&payload));
        let want: Vec<_> = rows.iter().map(|(key, row)| (*key, bits(row))).collect();
        assert_eq!(rows_of(&payload, key_kind), want);
    }
    let beacon = unhex(&kafka["beacon_hex"]);
    assert_eq!(UpdateMessage::decode(&beacon, KeyKind::I64), Ok(UpdateMessage::Beacon));
}

#[test]
fn what_is_no_message_is_refused_with_the_reason() {
    let header =
        |magic: u32, value_bytes: u32| [magic.to_le_bytes(), value_bytes.to_le_bytes()].concat();
    let with_body =
        |value_bytes: u32, body: usize| [header(MAGIC, value_bytes), vec![0; body]].concat();
    let cases = [
        (vec![], MessageFault::Short { bytes: 0 }),
        (header(MAGIC, 4)[..7].to_vec(), MessageFault::Short { bytes: 7 }),
        (header(0x4843_5452, 4), MessageFault::Magic { found: 0x4843_5452 }),
        (with_body(0, 8), MessageFault::ValueBytes { found: 0 }),
        (with_body(6, 14), MessageFault::ValueBytes { found: 6 }),
        (with_body(8, 8), MessageFault::Trailing { extra: 8, row_bytes: 16 }),
        (with_body(8, 33), MessageFault::Trailing { extra: 1, row_bytes: 16 }),
        (with_body(u32::MAX - 3, 5), MessageFault::Trailing { extra: 5, row_bytes: (1 << 32) + 4 }),
    ];
    for (payload, want) in cases {
        assert_eq!(UpdateMessage::decode(&payload, KeyKind::I64), Err(want), "{payload:?}");
    }
}

#[test]
fn rows_that_cannot_be_sent_are_refused_before_anything_is() {
    let row: &[f32] = &[1.0, 2.0];
    let cases = [
        (KeyKind::I64, 2, 23, 5, FeedError::RowBytes { dim: 2, bytes_most: 23 }),
        (KeyKind::I64, 0, 24, 5, FeedError::RowBytes { dim: 0, bytes_most: 24 }),
        (KeyKind::I64, usize::MAX, 24, 5, FeedError::RowBytes { dim: usize::MAX, bytes_most: 24 }),
        (KeyKind::U32, 2, 24, -1, FeedError::Key { key: -1, key_kind: KeyKind::U32 }),
        (KeyKind::U32, 2, 24, 1 << 32, FeedError::Key { key: 1 << 32, key_kind: KeyKind::U32 }),
    ];
    for (key_kind, dim, bytes_most, key, want) in cases {
        let emit = |_: &[u8]| panic!("nothing can be sent");
        assert_eq!(UpdateMessage::encode(key_kind, dim, bytes_most, [(key, row)], emit), Err(want));
    }
}

#[test]
fn a_message_that_is_not_taken_ends_the_rest() {
    let rows = [(1, [0.5].as_slice()), (2, &[0.5]), (3, &[0.5])];
    let mut taken = 0;
    let result = UpdateMessage::encode(KeyKind::I64, 1, 20, rows, |_| {
        taken += 1;
        if taken == 2 { Err(FeedError::NoWeights) } else { Ok(()) }
    });
    assert_eq!((result, taken), (Err(FeedError::NoWeights), 2));
}

fn rows() -> impl Strategy<Value = (KeyKind, usize, Vec<(i64, Vec<u32>)>)> {
    let kinds = prop_oneof![Just(KeyKind::U32), Just(KeyKind::I64)];
    (kinds, 1usize..6).prop_flat_map(|(key_kind, dim)| {
        let key = any::<i64>().prop_map(move |key| match key_kind {
            KeyKind::U32 => i64::from(key as u32),
            KeyKind::I64 => key,
        });
        let row = prop::collection::vec(any::<u32>(), dim);
        (Just(key_kind), Just(dim), prop::collection::vec((key, row), 0..40))
    })
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded((key_kind, dim, rows) in rows(), spare in 0usize..200) {
        let bytes_most = HEADER_BYTES + key_kind.bytes() + 4 * dim + spare;
        let floats = |row: &Vec<u32>| row.iter().map(|&bits| f32::from_bits(bits)).collect();
        let sent: Vec<Row> = rows.iter().map(|(key, row)| (*key, floats(row))).collect();
        let messages = messages(key_kind, dim, bytes_most, &sent);
        prop_assert!(messages.iter().all(|message| message.len() <= bytes_most));
        let back: Vec<_> =
            messages.iter().flat_map(|message| rows_of(message, key_kind)).collect();
        prop_assert_eq!(back, rows);
    }

    #[test]
    fn no_bytes_make_decoding_panic(
        begins_well in any::<bool>(),
        value_bytes in prop_oneof![0u32..20, any::<u32>()],
        body in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let header = [MAGIC.to_le_bytes(), value_bytes.to_le_bytes()].concat();
        let payload = if begins_well { [header, body].concat() } else { body };
        for key_kind in [KeyKind::U32, KeyKind::I64] {
            if let Ok(UpdateMessage::Rows(rows)) = UpdateMessage::decode(&payload, key_kind) {
                let floats: usize = rows.iter().map(|(_, row)| row.count()).sum();
                prop_assert_eq!(floats, rows.count() * rows.dim());
            }
        }
    }
}
