//! A configuration's bytes as a JSON value.
//!
//! Any bytes give a value or an error. JSON itself allows a key twice in an object, and the value
//! keeps the last: such keys are reported by their paths.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::config_error::ConfigError;
use super::fields::joined_path;
use super::report::Report;
use super::warning::Warning;

/// A file of thousands of models is well below it.
pub const BYTES_MAX: usize = 16 << 20;

pub fn parse(json: &[u8], report: &Report) -> Result<Value, ConfigError> {
    if json.len() > BYTES_MAX {
        return Err(ConfigError::TooLarge { limit: BYTES_MAX });
    }
    let text =
        str::from_utf8(json).map_err(|error| ConfigError::NotUtf8 { byte: error.valid_up_to() })?;
    // Some editors begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(ConfigError::Empty);
    }
    let wrong = |error: serde_json::Error| ConfigError::Json(error.to_string());
    let value = serde_json::from_str(text).map_err(wrong)?;
    let mut json = serde_json::Deserializer::from_str(text);
    Keys { place: Place::Top, report }.deserialize(&mut json).map_err(wrong)?;
    Ok(value)
}

/// Where a value stands; a path is only built where one is reported.
#[derive(Clone, Copy)]
enum Place<'a> {
    Top,
    Key { of: &'a Place<'a>, key: &'a str },
    Item { of: &'a Place<'a>, index: usize },
}

impl Place<'_> {
    fn path(&self) -> String {
        match self {
            Place::Top => String::new(),
            Place::Key { of, key } => joined_path(&of.path(), key),
            Place::Item { of, index } => format!("{}[{index}]", of.path()),
        }
    }
}

/// Walks a value and reports keys that an object has twice.
struct Keys<'a> {
    place: Place<'a>,
    report: &'a Report,
}

impl<'de> DeserializeSeed<'de> for Keys<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Keys<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let place = Place::Key { of: &self.place, key: &key };
            map.next_value_seed(Keys { place, report: self.report })?;
            if seen.contains(&key) {
                self.report.warn(|| Warning::GivenTwice { path: place.path() });
            }
            seen.insert(key);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let item = |index| Keys { place: Place::Item { of: &self.place, index }, ..self };
        let mut index = 0;
        while items.next_element_seed(item(index))?.is_some() {
            index += 1;
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &[u8], want: Result<&[&str], &str>) {
        let report = Report::default();
        let found = parse(json, &report).map(|_| report.finish().unwrap());
        let shown: String = String::from_utf8_lossy(json).chars().take(60).collect();
        match (found, want) {
            (Ok(warnings), Ok(want)) => {
                let warnings: Vec<String> = warnings.iter().map(Warning::to_string).collect();
                assert_eq!(warnings, want, "{shown}");
            }
            (Err(error), Err(want)) => assert_eq!(error.to_string(), want, "{shown}"),
            (found, want) => panic!("{shown}: {found:?} instead of {want:?}"),
        }
    }

    #[test]
    fn bytes_that_are_no_json_say_why() {
        let empty =
            "the configuration is empty; it needs a JSON object with supportlonglong and models";
        check(b"", Err(empty));
        check(b"\xef\xbb\xbf \n", Err(empty));
        check(b"{\"a\": \"\xff\"}", Err("the configuration is not UTF-8: byte 7 is wrong"));
        check(
            b"{\"a\": 1e999}",
            Err("the configuration is not valid JSON: number out of range at line 1 column 11"),
        );
        check(
            b"{} {}",
            Err("the configuration is not valid JSON: trailing characters at line 1 column 4"),
        );
        check(
            &vec![b'['; 100_000],
            Err("the configuration is not valid JSON: recursion limit exceeded at line 1 column \
                 128"),
        );
        check(
            &vec![b' '; BYTES_MAX + 1],
            Err("the configuration has more than 16777216 bytes; is it the right file?"),
        );
    }

    #[test]
    fn keys_given_twice_are_reported_where_they_stand() {
        check(b"\xef\xbb\xbf{\"a\": [1, {\"b\": null}]}", Ok(&[]));
        check(
            br#"{"a": 1, "b": [{"c": 1}, {"c": {"d": 1, "d": -1, "d": 0.5}}], "a": true}"#,
            Ok(&[
                "b[1].c.d: given twice; the last one counts",
                "b[1].c.d: given twice; the last one counts",
                "a: given twice; the last one counts",
            ]),
        );
    }
}
