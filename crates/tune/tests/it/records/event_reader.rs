//! TensorBoard's event files, read by the messages' definitions alone.
//!
//! Checksums are skipped here: unit tests hold them to TensorBoard's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Debug, PartialEq)]
pub struct Event {
    pub step: u64,
    pub content: EventContent,
}

#[derive(Debug, PartialEq)]
pub enum EventContent {
    FileVersion(String),
    SessionStart,
    Scalars(Vec<(String, f32)>),
}

/// The events of each event file of a folder, in the order of names.
pub fn read_events(folder: &Path) -> Vec<Vec<Event>> {
    let entries = std::fs::read_dir(folder).expect("it is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("it reads").path()).collect();
    files.retain(|file| file.to_string_lossy().contains("/events.out.tfevents."));
    files.sort();
    files.iter().map(|file| events(&std::fs::read(file).expect("it reads"))).collect()
}

fn events(mut bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    while !bytes.is_empty() {
        let length = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
        events.push(event(&bytes[12..12 + length]));
        bytes = &bytes[12 + length + 4..];
    }
    events
}

fn event(bytes: &[u8]) -> Event {
    let fields = fields(bytes);
    let wall_time = f64::from_bits(fields[&1][0].number());
    assert!(wall_time > 1.7e9, "no time of this century: {wall_time}");
    let content = match (fields.get(&3), fields.get(&5), fields.get(&7)) {
        (Some(version), None, None) => EventContent::FileVersion(version[0].text()),
        (None, Some(summary), None) => EventContent::Scalars(scalars(summary[0].bytes())),
        (None, None, Some(session_log)) => {
            assert_eq!(self::fields(session_log[0].bytes())[&1], [Field::Number(1)]);
            EventContent::SessionStart
        }
        _ => panic!("an event has one content: {fields:?}"),
    };
    Event { step: fields.get(&2).map_or(0, |step| step[0].number()), content }
}

fn scalars(summary: &[u8]) -> Vec<(String, f32)> {
    let scalar = |value: &Field| {
        let value = fields(value.bytes());
        (value[&1][0].text(), f32::from_bits(value[&2][0].number() as u32))
    };
    fields(summary)[&1].iter().map(scalar).collect()
}

/// Of one number of a message there may be several.
#[derive(Debug, PartialEq)]
enum Field {
    /// Also the bits of a float.
    Number(u64),
    Bytes(Vec<u8>),
}

impl Field {
    fn number(&self) -> u64 {
        let Field::Number(number) = self else { panic!("not a number: {self:?}") };
        *number
    }

    fn bytes(&self) -> &[u8] {
        let Field::Bytes(bytes) = self else { panic!("not bytes: {self:?}") };
        bytes
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("it is text")
    }
}

fn fields(mut bytes: &[u8]) -> BTreeMap<u64, Vec<Field>> {
    let mut fields: BTreeMap<u64, Vec<Field>> = BTreeMap::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Number(little_endian(take(&mut bytes, 8))),
            5 => Field::Number(little_endian(take(&mut bytes, 4))),
            2 => {
                let length = varint(&mut bytes) as usize;
                Field::Bytes(take(&mut bytes, length).to_vec())
            }
            other => panic!("wire type {other}"),
        };
        fields.entry(key >> 3).or_default().push(field);
    }
    fields
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    taken
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte))
}
