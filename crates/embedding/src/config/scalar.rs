//! One number or truth value of a configuration, written as JSON's own or as a string.
//!
//! Files of older releases have `"0.9"` and `"true"`. A value is read in full or not at all:
//! nothing is rounded, cut or guessed.

use std::fmt;

use serde_json::Value;

/// Above it, a number that was written as a fraction may not be the one that was meant.
const EXACT_WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

pub fn whole_of(value: &Value) -> Option<u64> {
    let of_real = |real: f64| {
        let is_whole = real.fract() == 0.0 && (0.0..=EXACT_WHOLE_MAX).contains(&real);
        is_whole.then_some(real as u64)
    };
    match value {
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().and_then(of_real)),
        Value::String(text) => {
            let text = text.trim();
            text.parse().ok().or_else(|| text.parse().ok().and_then(of_real))
        }
        _ => None,
    }
}

/// Neither infinite nor NaN.
pub fn real_of(value: &Value) -> Option<f64> {
    let real: Option<f64> = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    real.filter(|real| real.is_finite())
}

pub fn flag_of(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        Value::Number(_) => match whole_of(value) {
            Some(1) => Some(true),
            Some(0) => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// The numbers that a field may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reals {
    /// With 0 and 1.
    Fraction,
    /// Without 0 and 1.
    InnerFraction,
    NotNegative,
    /// A span of time that a clock can hold.
    Seconds,
    /// What 32 bits hold.
    Single,
}

impl Reals {
    pub fn contains(self, real: f64) -> bool {
        match self {
            Reals::Fraction => (0.0..=1.0).contains(&real),
            Reals::InnerFraction => 0.0 < real && real < 1.0,
            Reals::NotNegative => real >= 0.0,
            Reals::Seconds => (0.0..=1e9).contains(&real),
            Reals::Single => (real as f32).is_finite(),
        }
    }
}

impl fmt::Display for Reals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reals::Fraction => "a number from 0 to 1",
            Reals::InnerFraction => "a number above 0 and below 1",
            Reals::NotNegative => "a number of at least 0",
            Reals::Seconds => "seconds from 0 to 1000000000",
            Reals::Single => "a number of 32 bits",
        })
    }
}

/// What a file has, short enough for a message.
pub fn found(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => shown(text),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// A text in quotes, escaped and cut.
pub fn shown(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_are_read_in_full_or_not_at_all() {
        let check = |value: Value, want: Option<u64>| assert_eq!(whole_of(&value), want, "{value}");
        check(json!(26), Some(26));
        check(json!("26"), Some(26));
        check(json!(" 26 "), Some(26));
        check(json!(26.0), Some(26));
        check(json!("1e3"), Some(1000));
        check(json!(u64::MAX), Some(u64::MAX));
        check(json!("18446744073709551615"), Some(u64::MAX));
        check(json!("18446744073709551616"), None);
        check(json!(1e19), None);
        check(json!(0.5), None);
        check(json!("0.5"), None);
        check(json!(-1), None);
        check(json!("-1"), None);
        check(json!("nan"), None);
        check(json!("inf"), None);
        check(json!(""), None);
        check(json!(true), None);
        check(json!([1]), None);
    }

    #[test]
    fn numbers_are_finite() {
        let check = |value: Value, want: Option<f64>| assert_eq!(real_of(&value), want, "{value}");
        check(json!("0.9"), Some(0.9));
        check(json!(-3), Some(-3.0));
        check(json!("NaN"), None);
        check(json!("-inf"), None);
        check(json!("1e999"), None);
        check(json!(true), None);
    }

    #[test]
    fn truth_values_have_three_spellings() {
        let check = |value: Value, want: Option<bool>| assert_eq!(flag_of(&value), want, "{value}");
        check(json!(true), Some(true));
        check(json!("true"), Some(true));
        check(json!("False"), Some(false));
        check(json!(1), Some(true));
        check(json!("0"), Some(false));
        check(json!(2), None);
        check(json!("yes"), None);
        check(json!({}), None);
    }
}
