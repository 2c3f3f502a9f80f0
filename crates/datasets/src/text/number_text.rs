//! Whole numbers as text, read and written without a detour through strings.

/// More digits than this are read the slow way, which notices an overflow.
const FAST_DIGITS: usize = 18;

/// The number at the beginning of some bytes, and how many it takes. `None` where there is no digit
/// or the number may not fit.
#[inline]
pub fn whole_prefix(bytes: &[u8]) -> Option<(i64, usize)> {
    let sign = usize::from(bytes.first() == Some(&b'-'));
    let digits = &bytes[sign..];
    let mut number = 0i64;
    let mut count = 0;
    while count < digits.len() && count <= FAST_DIGITS {
        let digit = digits[count].wrapping_sub(b'0');
        if 9 < digit {
            break;
        }
        number = number.wrapping_mul(10).wrapping_add(i64::from(digit));
        count += 1;
    }
    let fits = (1..=FAST_DIGITS).contains(&count);
    fits.then_some((if sign == 1 { -number } else { number }, sign + count))
}

/// A field that is a whole number, as tables have them: also in quotes, with spaces, or as `5.0`.
pub fn whole_number(field: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(field).ok()?.trim();
    let text = text.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap_or(text);
    let text = match text.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|digit| digit == b'0') => whole,
        Some(_) => return None,
        None => text,
    };
    text.parse().ok()
}

/// Appends a number in decimal.
#[inline]
pub fn push_number(out: &mut Vec<u8>, number: i64) {
    const MOST_DIGITS: usize = 20;
    let mut digits = [0u8; MOST_DIGITS];
    let mut first = MOST_DIGITS;
    let mut left = number.unsigned_abs();
    loop {
        first -= 1;
        digits[first] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(number: i64) -> Vec<u8> {
        let mut out = Vec::new();
        push_number(&mut out, number);
        out
    }

    #[test]
    fn edges() {
        assert_eq!(written(i64::MIN), b"-9223372036854775808");
        assert_eq!(whole_number(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(whole_number(b"9223372036854775808"), None);
        assert_eq!(whole_number(b"\"7\""), Some(7));
        assert_eq!(whole_number(b" 5.00 "), Some(5));
        assert_eq!(whole_number(b"5.5"), None);
        assert_eq!(whole_number(b""), None);
        assert_eq!(whole_prefix(b""), None);
        assert_eq!(whole_prefix(b"-"), None);
        assert_eq!(whole_prefix(b"x1"), None);
        assert_eq!(whole_prefix(b"12,34"), Some((12, 2)));
        assert_eq!(whole_prefix(b"-5"), Some((-5, 2)));
        assert_eq!(whole_prefix(b"999999999999999999"), Some((999_999_999_999_999_999, 18)));
        assert_eq!(whole_prefix(b"1000000000000000000"), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(number: i64) {
            prop_assert_eq!(String::from_utf8(written(number)).unwrap(), number.to_string());
            prop_assert_eq!(whole_number(&written(number)), Some(number));
            if let Some((read, bytes)) = whole_prefix(&written(number)) {
                prop_assert_eq!((read, bytes), (number, written(number).len()));
            } else {
                prop_assert!(10u64.pow(18) <= number.unsigned_abs());
            }
        }
    }
}
