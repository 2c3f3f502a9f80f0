//! New rows of a table, as a message has them.

use terrace_embedding::{KeyKind, MessageRows, UpdateMessage};

const HEADER_BYTES: usize = 8;

/// Which kind the keys are is not in a message: both are tried.
pub fn run(input: &[u8]) -> bool {
    let accepted = [KeyKind::U32, KeyKind::I64].map(|kind| read(input, kind));
    accepted.contains(&true)
}

fn read(input: &[u8], kind: KeyKind) -> bool {
    let Ok(message) = UpdateMessage::decode(input, kind) else { return false };
    match message {
        UpdateMessage::Beacon => assert_eq!(input.len(), HEADER_BYTES),
        UpdateMessage::Rows(rows) => {
            let row_bytes = kind.bytes() + 4 * rows.dim();
            assert!(rows.dim() > 0 && rows.count() > 0, "{} of {}", rows.count(), rows.dim());
            assert_eq!(input.len(), HEADER_BYTES + rows.count() * row_bytes);
            write_again(input, kind, &rows);
        }
    }
    true
}

/// In one message, and in several of a few rows.
fn write_again(input: &[u8], kind: KeyKind, rows: &MessageRows<'_>) {
    let keys: Vec<i64> = rows.iter().map(|(key, _)| key).collect();
    let floats: Vec<f32> = rows.iter().flat_map(|(_, row)| row).collect();
    assert_eq!((keys.len(), floats.len()), (rows.count(), rows.count() * rows.dim()));
    assert_eq!(encoded(kind, rows.dim(), input.len(), &keys, &floats), [input]);

    let row_bytes = kind.bytes() + 4 * rows.dim();
    let few = 1 + usize::from(input[input.len() - 1]) % rows.count();
    let bytes_most = HEADER_BYTES + few * row_bytes + row_bytes / 2;
    let messages = encoded(kind, rows.dim(), bytes_most, &keys, &floats);
    assert_eq!(messages.len(), rows.count().div_ceil(few));
    let mut joined = input[..HEADER_BYTES].to_vec();
    for message in &messages {
        assert!(message.len() <= bytes_most, "{} bytes of {bytes_most}", message.len());
        assert!(matches!(UpdateMessage::decode(message, kind), Ok(UpdateMessage::Rows(_))));
        joined.extend_from_slice(&message[HEADER_BYTES..]);
    }
    assert_eq!(joined, input);
    let too_few = UpdateMessage::encode(kind, rows.dim(), row_bytes, [], |_| Ok(()));
    assert!(too_few.is_err(), "a message without room for a header and a row");
}

fn encoded(
    kind: KeyKind,
    dim: usize,
    bytes_most: usize,
    keys: &[i64],
    floats: &[f32],
) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let rows = keys.iter().copied().zip(floats.chunks_exact(dim));
    let written = UpdateMessage::encode(kind, dim, bytes_most, rows, |message| {
        messages.push(message.to_vec());
        Ok(())
    });
    written.expect("rows that were read can be written");
    messages
}
