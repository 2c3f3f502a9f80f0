//! An event as bytes: differences to the event before it, in as few bytes as they need.
//!
//! Neighbours of a sorted run have the same user and near times, so that an event takes about 20
//! bytes instead of 48.

use crate::event::Event;

/// No event takes more: six numbers of at most ten bytes, and two bytes.
pub const EVENT_BYTES_MAX: usize = 6 * 10 + 2;

pub fn push_event(out: &mut Vec<u8>, event: &Event, before: &Event) {
    push_signed(out, event.user.wrapping_sub(before.user));
    push_signed(out, event.time.wrapping_sub(before.time));
    push_signed(out, event.item);
    push_signed(out, event.play_ms);
    push_signed(out, event.duration_ms);
    push_signed(out, i64::from(event.date) - i64::from(before.date));
    out.extend([event.action, event.file]);
}

/// The event at the beginning of some bytes, and how many it takes. `None` where they are none.
#[inline]
pub fn read_event(bytes: &[u8], before: &Event) -> Option<(Event, usize)> {
    let mut rest = bytes;
    let event = Event {
        user: before.user.wrapping_add(take_signed(&mut rest)?),
        time: before.time.wrapping_add(take_signed(&mut rest)?),
        item: take_signed(&mut rest)?,
        play_ms: take_signed(&mut rest)?,
        duration_ms: take_signed(&mut rest)?,
        date: u32::try_from(i64::from(before.date).checked_add(take_signed(&mut rest)?)?).ok()?,
        action: take_byte(&mut rest)?,
        file: take_byte(&mut rest)?,
    };
    Some((event, bytes.len() - rest.len()))
}

/// Small numbers of either sign are small: 0, -1, 1, -2, 2 become 0 to 4.
fn push_signed(out: &mut Vec<u8>, number: i64) {
    let mut left = (number.wrapping_shl(1) ^ (number >> 63)) as u64;
    while 0x80 <= left {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

#[inline]
fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(bytes)?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((number >> 1) as i64 ^ -((number & 1) as i64));
        }
    }
    None
}

#[inline]
fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event((user, time, item): (i64, i64, i64), (play_ms, date): (i64, u32)) -> Event {
        let small = date as u8;
        Event { user, time, item, play_ms, duration_ms: !play_ms, date, action: small, file: small }
    }

    proptest! {
        #[test]
        fn what_is_coded_is_read(
            keys: (i64, i64, i64), others: (i64, u32), keys_before: (i64, i64, i64),
            others_before: (i64, u32),
        ) {
            let (event, before) = (event(keys, others), event(keys_before, others_before));
            let mut bytes = Vec::new();
            push_event(&mut bytes, &event, &before);
            prop_assert!(bytes.len() <= EVENT_BYTES_MAX);
            prop_assert_eq!(read_event(&bytes, &before), Some((event, bytes.len())));
            prop_assert_eq!(read_event(&bytes[..bytes.len() - 1], &before), None);
        }
    }

    #[test]
    fn neighbours_take_few_bytes() {
        let before = event((5, 1_649_408_076_860, 4_000_000), (175_045, 20_220_408));
        let event = Event { time: before.time + 9_000, ..before };
        let mut bytes = Vec::new();
        push_event(&mut bytes, &event, &before);
        assert!(bytes.len() <= 18, "{}", bytes.len());
    }
}
