//! Types that a field may have, and the complaint about one that has another.
//!
//! A complaint names the field with its path, what it must be, and what came. It never shows the
//! words of this program's types.

use std::ops::RangeInclusive;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::field_limits::{self, MAX_VALUES};
use super::json_scan::{Counts, Kind};
use crate::api_error::{ApiError, ApiResult};

pub trait FieldValue: Sized {
    fn read(json: &RawValue, path: &str) -> ApiResult<Self>;

    /// A list of such values.
    fn read_list(json: &RawValue, path: &str) -> ApiResult<Vec<Self>> {
        let Counts { items, values } = Counts::of(json.get());
        check_values(path, values.saturating_sub(items))?;
        let items = items_of(json, path, field_limits::items(path))?.into_iter().enumerate();
        items.map(|(index, item)| Self::read(item, &format!("{path}[{index}]"))).collect()
    }
}

impl FieldValue for bool {
    fn read(json: &RawValue, path: &str) -> ApiResult<Self> {
        match json.get() {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(wrong_type(json, path, "true or false")),
        }
    }
}

impl FieldValue for String {
    fn read(json: &RawValue, path: &str) -> ApiResult<Self> {
        if Kind::of(json.get()) != Kind::String {
            return Err(wrong_type(json, path, "a string"));
        }
        let limit = field_limits::bytes(path);
        // Quotes, and at most six bytes of escape for each byte of text.
        if (json.get().len() - 2) / 6 > limit {
            return Err(too_long(path, json.get().len() - 2, limit));
        }
        let text: String = serde_json::from_str(json.get())
            .map_err(|error| ApiError::invalid(path, format!("{path} is no text: {error}")))?;
        match text.len() <= limit {
            true => Ok(text),
            false => Err(too_long(path, text.len(), limit)),
        }
    }
}

impl FieldValue for f32 {
    fn read(json: &RawValue, path: &str) -> ApiResult<Self> {
        let number = (Kind::of(json.get()) == Kind::Number).then(|| json.get().parse::<f64>());
        let Some(Ok(number)) = number else { return Err(wrong_type(json, path, "a number")) };
        match (number as f32).is_finite() {
            true => Ok(number as f32),
            false => Err(wrong_value(json, path, "a number of at most 3.4e38")),
        }
    }
}

macro_rules! whole_number {
    ($($type:ty),*) => {$(
        impl FieldValue for $type {
            fn read(json: &RawValue, path: &str) -> ApiResult<Self> {
                let number = whole_number_in(json, path, field_limits::number(path))?;
                Self::try_from(number)
                    .map_err(|_| wrong_value(json, path, "a number that fits its type"))
            }
        }
    )*};
}

whole_number!(usize, i32, i64);

/// Token ids, of which there may be millions in a list.
impl FieldValue for u32 {
    fn read(json: &RawValue, path: &str) -> ApiResult<Self> {
        let number = whole_number_in(json, path, 0..=i64::from(u32::MAX))?;
        Ok(u32::try_from(number).expect("the range is that of the type"))
    }

    fn read_list(json: &RawValue, path: &str) -> ApiResult<Vec<Self>> {
        check_items(json, path, field_limits::items(path))?;
        serde_json::from_str(json.get()).map_err(|error| {
            let column = error.column();
            let message =
                format!("{path} must be a list of token ids; character {column} is wrong");
            ApiError::invalid(path, message)
        })
    }
}

/// A whole number of the range; `5.0` is one too.
pub fn whole_number_in(json: &RawValue, path: &str, range: RangeInclusive<i64>) -> ApiResult<i64> {
    if Kind::of(json.get()) != Kind::Number {
        return Err(wrong_type(json, path, "a whole number"));
    }
    let exact = json.get().parse::<i64>().ok();
    let number = exact.or_else(|| json.get().parse().ok().and_then(whole));
    match number {
        Some(number) if range.contains(&number) => Ok(number),
        _ => {
            let (least, most) = (range.start(), range.end());
            let want = match least == most {
                true => format!("{least}"),
                false => format!("a whole number from {least} to {most}"),
            };
            Err(wrong_value(json, path, &want))
        }
    }
}

fn whole(number: f64) -> Option<i64> {
    // Above 2^53 a float does not tell neighbours apart.
    let is_exact = number.fract() == 0.0 && number.abs() < (1_u64 << 53) as f64;
    is_exact.then_some(number as i64)
}

impl<T: FieldValue> FieldValue for Vec<T> {
    fn read(json: &RawValue, path: &str) -> ApiResult<Self> {
        T::read_list(json, path)
    }
}

/// The items of a list of at most `limit`.
pub fn items_of<'a>(json: &'a RawValue, path: &str, limit: usize) -> ApiResult<Vec<&'a RawValue>> {
    check_items(json, path, limit)?;
    serde_json::from_str(json.get()).map_err(|error| too_deep(path, &error))
}

/// It is a list, of at most `limit` items.
pub fn check_items(json: &RawValue, path: &str, limit: usize) -> ApiResult<()> {
    if Kind::of(json.get()) != Kind::Array {
        return Err(wrong_type(json, path, "a list"));
    }
    let items = Counts::of(json.get()).items;
    match items <= limit {
        true => Ok(()),
        false => {
            let message = format!("{path} has {items} items, the limit is {limit}");
            Err(ApiError::invalid(path, message))
        }
    }
}

fn check_values(path: &str, values: usize) -> ApiResult<()> {
    match values <= MAX_VALUES {
        true => Ok(()),
        false => {
            let message = format!("{path} has {values} values in all, the limit is {MAX_VALUES}");
            Err(ApiError::invalid(path, message))
        }
    }
}

impl FieldValue for Value {
    fn read(json: &RawValue, path: &str) -> ApiResult<Self> {
        check_values(path, Counts::of(json.get()).values)?;
        serde_json::from_str(json.get()).map_err(|error| too_deep(path, &error))
    }
}

impl FieldValue for Map<String, Value> {
    fn read(json: &RawValue, path: &str) -> ApiResult<Self> {
        if Kind::of(json.get()) != Kind::Object {
            return Err(wrong_type(json, path, "an object"));
        }
        match Value::read(json, path)? {
            Value::Object(fields) => Ok(fields),
            _ => Err(wrong_type(json, path, "an object")),
        }
    }
}

pub fn wrong_type(json: &RawValue, path: &str, want: &str) -> ApiError {
    let kind = Kind::of(json.get()).name();
    let found = match Kind::of(json.get()) {
        Kind::Bool | Kind::Null => json.get().trim().to_owned(),
        Kind::Number | Kind::String => format!("{kind} ({})", abbreviated(json.get())),
        Kind::Array | Kind::Object => kind.to_owned(),
    };
    ApiError::invalid(path, format!("{path} must be {want}, not {found}"))
}

fn wrong_value(json: &RawValue, path: &str, want: &str) -> ApiError {
    let found = abbreviated(json.get());
    ApiError::invalid(path, format!("{path} is {found}: it must be {want}"))
}

fn too_long(path: &str, bytes: usize, limit: usize) -> ApiError {
    ApiError::invalid(path, format!("{path} has {bytes} bytes, the limit is {limit}"))
}

/// The text is JSON; what remains to go wrong is its depth, and escapes that are no characters.
fn too_deep(path: &str, error: &serde_json::Error) -> ApiError {
    let what = error.to_string();
    let message = match what.contains("recursion limit") {
        true => format!("{path} is nested too deeply; the limit is 128 levels"),
        false => format!("{path}: {what}"),
    };
    ApiError::invalid(path, message)
}

/// A value as messages quote it; it may be as long as the body.
fn abbreviated(json: &str) -> String {
    const SHOWN_CHARS: usize = 60;
    let json = json.trim();
    match json.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &json[..end]),
        None => json.to_owned(),
    }
}
