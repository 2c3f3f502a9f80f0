//! TensorBoard's `Event` messages (tensorflow/core/util/event.proto) as protobuf bytes.

/// What an event is about. Of each message only the fields stand here that Terrace writes.
pub enum EventContent<'a> {
    /// The first event of every file.
    FileVersion,
    /// A run begins with the event's step: readers drop what they have of this step and later ones.
    Start,
    /// Tags and values.
    Scalars(&'a [(&'a str, f64)]),
}

const FILE_VERSION: &[u8] = b"brain.Event:2";
/// `SessionLog.SessionStatus.START`.
const START: u64 = 1;

/// `wall_time`: seconds since 1970.
pub fn event(wall_time: f64, step: u64, content: &EventContent<'_>) -> Vec<u8> {
    let mut event = Vec::new();
    put_f64(&mut event, 1, wall_time);
    put_varint(&mut event, 2, step);
    match content {
        EventContent::FileVersion => put_bytes(&mut event, 3, FILE_VERSION),
        EventContent::Start => {
            let mut session_log = Vec::new();
            put_varint(&mut session_log, 1, START);
            put_bytes(&mut event, 7, &session_log);
        }
        EventContent::Scalars(scalars) => {
            let mut summary = Vec::new();
            for (tag, value) in *scalars {
                let mut summary_value = Vec::new();
                put_bytes(&mut summary_value, 1, tag.as_bytes());
                put_f32(&mut summary_value, 2, *value as f32);
                put_bytes(&mut summary, 1, &summary_value);
            }
            put_bytes(&mut event, 5, &summary);
        }
    }
    event
}

/// How the bytes behind a field's number are laid out.
#[derive(Clone, Copy)]
enum WireType {
    Varint = 0,
    Bits64 = 1,
    Bytes = 2,
    Bits32 = 5,
}

fn put_varint(out: &mut Vec<u8>, field: u64, value: u64) {
    // As protobuf's own encoders do: zero is what a field has that is left out.
    if value != 0 {
        key(out, field, WireType::Varint);
        varint(out, value);
    }
}

fn put_f64(out: &mut Vec<u8>, field: u64, value: f64) {
    key(out, field, WireType::Bits64);
    out.extend(value.to_le_bytes());
}

fn put_f32(out: &mut Vec<u8>, field: u64, value: f32) {
    key(out, field, WireType::Bits32);
    out.extend(value.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    key(out, field, WireType::Bytes);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn key(out: &mut Vec<u8>, field: u64, wire_type: WireType) {
    varint(out, (field << 3) | wire_type as u64);
}

/// Seven bits a byte, the lowest first; all bytes but the last have the eighth bit set.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
