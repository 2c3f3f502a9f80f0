//! The fields of one JSON object of a configuration, taken one by one by name.
//!
//! Every complaint has the field's path, what was found and what is allowed; a wrong value is
//! reported and then as good as absent, so that reading goes on. Invariant: after
//! [`Fields::finish`] each field was taken, or a warning names it. `null` is as good as absent.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Map, Value};

use super::nearest_name::nearest_name;
use super::report::Report;
use super::scalar::{Reals, flag_of, found, real_of, shown, whole_of};
use super::warning::Warning;

pub struct Fields<'a> {
    /// Where the object stands; empty for the whole file.
    path: String,
    /// `None` where the file has no such object.
    object: Option<&'a Map<String, Value>>,
    /// The names that this object may have.
    known: Vec<&'static str>,
    report: &'a Report,
}

/// An object within another.
pub enum Section<'a> {
    Absent,
    /// It is there and is `null`.
    Null,
    Given(Fields<'a>),
}

/// The names that mean the same value; the first one is the one to use.
pub type Choice<T> = (&'static [&'static str], T);

impl<'a> Fields<'a> {
    pub fn new(
        path: impl Into<String>,
        object: &'a Map<String, Value>,
        report: &'a Report,
    ) -> Self {
        Fields { path: path.into(), object: Some(object), known: Vec::new(), report }
    }

    /// Of an object that is not there: all fields have their defaults.
    pub fn absent(path: impl Into<String>, report: &'a Report) -> Self {
        Fields { path: path.into(), object: None, known: Vec::new(), report }
    }

    pub fn report(&self) -> &'a Report {
        self.report
    }

    pub fn path_of(&self, name: &str) -> String {
        joined_path(&self.path, name)
    }

    /// Whether the object has the field, be it `null`.
    pub fn has(&self, name: &str) -> bool {
        self.peek(name).is_some()
    }

    /// A field that stays to be taken.
    pub fn peek(&self, name: &str) -> Option<&'a Value> {
        self.object?.get(name)
    }

    pub fn value(&mut self, name: &'static str) -> Option<&'a Value> {
        if !self.known.contains(&name) {
            self.known.push(name);
        }
        self.peek(name).filter(|value| !value.is_null())
    }

    pub fn whole(&mut self, name: &'static str, allowed: RangeInclusive<u64>) -> Option<u64> {
        let value = self.value(name)?;
        self.whole_at(value, || self.path_of(name), &allowed)
    }

    pub fn real(&mut self, name: &'static str, allowed: Reals) -> Option<f64> {
        let value = self.value(name)?;
        self.real_at(value, || self.path_of(name), allowed)
    }

    pub fn flag(&mut self, name: &'static str) -> Option<bool> {
        let value = self.value(name)?;
        self.checked(value, flag_of(value), || self.path_of(name), "true or false")
    }

    pub fn text(&mut self, name: &'static str) -> Option<&'a str> {
        let value = self.value(name)?;
        self.checked(value, value.as_str(), || self.path_of(name), "a string")
    }

    /// A text that stands in no message.
    pub fn secret(&mut self, name: &'static str) -> Option<&'a str> {
        let value = self.value(name)?;
        if value.as_str().is_none() {
            self.wrong(&self.path_of(name), "a value of another kind", "a string");
        }
        value.as_str()
    }

    pub fn seconds(&mut self, name: &'static str) -> Option<Duration> {
        self.real(name, Reals::Seconds).map(Duration::from_secs_f64)
    }

    pub fn milliseconds(
        &mut self,
        name: &'static str,
        allowed: RangeInclusive<u64>,
    ) -> Option<Duration> {
        self.whole(name, allowed).map(Duration::from_millis)
    }

    /// One of several values, each with its names.
    pub fn choice<T: Copy>(&mut self, name: &'static str, choices: &[Choice<T>]) -> Option<T> {
        let value = self.value(name)?;
        let text = value.as_str().map(|text| text.trim().to_ascii_lowercase());
        let is_meant = |names: &[&str]| text.as_deref().is_some_and(|text| names.contains(&text));
        let choice = choices.iter().find(|(names, _)| is_meant(names)).map(|&(_, choice)| choice);
        let allowed = || choices.iter().map(|(names, _)| names[0]).collect::<Vec<_>>().join(", ");
        self.checked(value, choice, || self.path_of(name), allowed())
    }

    /// A list of whole numbers; `None` if one of them is wrong.
    pub fn wholes(&mut self, name: &'static str, allowed: RangeInclusive<u64>) -> Option<Vec<u64>> {
        let items = self.list(name)?.iter().enumerate();
        let path = |index| self.item_path(name, index);
        let wholes = items.map(|(index, item)| self.whole_at(item, || path(index), &allowed));
        all(wholes)
    }

    pub fn reals(&mut self, name: &'static str, allowed: Reals) -> Option<Vec<f64>> {
        let items = self.list(name)?.iter().enumerate();
        let path = |index| self.item_path(name, index);
        let reals = items.map(|(index, item)| self.real_at(item, || path(index), allowed));
        all(reals)
    }

    /// The texts of a list with their paths; one text alone is a list of one.
    pub fn texts(&mut self, name: &'static str) -> Option<Vec<(String, &'a str)>> {
        let value = self.value(name)?;
        texts_at(value, &self.path_of(name), self.report)
    }

    pub fn list(&mut self, name: &'static str) -> Option<&'a [Value]> {
        let value = self.value(name)?;
        let items = value.as_array().map(Vec::as_slice);
        self.checked(value, items, || self.path_of(name), "a list")
    }

    pub fn section(&mut self, name: &'static str) -> Section<'a> {
        let Some(value) = self.value(name) else {
            return if self.has(name) { Section::Null } else { Section::Absent };
        };
        match self.checked(value, value.as_object(), || self.path_of(name), "an object") {
            Some(object) => Section::Given(Fields::new(self.path_of(name), object, self.report)),
            None => Section::Null,
        }
    }

    /// The objects of a list.
    pub fn sections(&mut self, name: &'static str) -> Option<Vec<Fields<'a>>> {
        let items = self.list(name)?.iter().enumerate();
        let sections = items.filter_map(|(index, item)| {
            let path = self.item_path(name, index);
            let object = self.checked(item, item.as_object(), || path.clone(), "an object")?;
            Some(Fields::new(path, object, self.report))
        });
        Some(sections.collect())
    }

    /// Takes fields that are right to be there and that nothing depends on.
    pub fn accept(&mut self, names: &[&'static str]) {
        self.known.extend_from_slice(names);
    }

    /// Takes fields that HugeCTR has a use for and that change nothing here; says so.
    pub fn no_effect(&mut self, names: &[&'static str]) {
        for name in names {
            if self.value(name).is_some() {
                self.report.no_effect(&self.path_of(name));
            }
        }
    }

    /// A field that must be there is not.
    pub fn missing(&self, name: &str, needed: &str) {
        // A wrong value has been reported as such.
        if self.peek(name).is_none_or(Value::is_null) {
            self.report.problem(self.path_of(name), format!("not given, needed: {needed}"));
        }
    }

    pub fn wrong(&self, path: &str, found: impl fmt::Display, allowed: impl fmt::Display) {
        self.report.problem(path, format!("found {found}, allowed: {allowed}"));
    }

    /// Names what nobody took.
    pub fn finish(self) {
        let keys = self.object.iter().flat_map(|object| object.keys());
        for key in keys.filter(|key| !self.known.contains(&key.as_str())) {
            self.report.warn(|| {
                let nearest = nearest_name(key, &self.known);
                Warning::Unknown { path: self.path_of(key), nearest }
            });
        }
    }

    fn item_path(&self, name: &str, index: usize) -> String {
        format!("{}[{index}]", self.path_of(name))
    }

    fn whole_at(
        &self,
        value: &Value,
        path: impl Fn() -> String,
        allowed: &RangeInclusive<u64>,
    ) -> Option<u64> {
        let whole = whole_of(value).filter(|whole| allowed.contains(whole));
        let (from, to) = (allowed.start(), allowed.end());
        self.checked(value, whole, path, format_args!("a whole number from {from} to {to}"))
    }

    fn real_at(&self, value: &Value, path: impl Fn() -> String, allowed: Reals) -> Option<f64> {
        let real = real_of(value).filter(|real| allowed.contains(*real));
        self.checked(value, real, path, allowed)
    }

    fn checked<T>(
        &self,
        value: &Value,
        read: Option<T>,
        path: impl Fn() -> String,
        allowed: impl fmt::Display,
    ) -> Option<T> {
        if read.is_none() {
            self.wrong(&path(), found(value), allowed);
        }
        read
    }
}

/// The texts of a value with their paths: one text or a list of them.
pub fn texts_at<'a>(
    value: &'a Value,
    path: &str,
    report: &Report,
) -> Option<Vec<(String, &'a str)>> {
    let wrong = |path: &str, value: &Value, allowed: &str| {
        report.problem(path, format!("found {}, allowed: {allowed}", found(value)));
    };
    match value {
        Value::String(text) => Some(vec![(path.to_owned(), text)]),
        Value::Array(items) => all(items.iter().enumerate().map(|(index, item)| {
            let path = format!("{path}[{index}]");
            if item.as_str().is_none() {
                wrong(&path, item, "a string");
            }
            item.as_str().map(|text| (path, text))
        })),
        _ => {
            wrong(path, value, "a string or a list of strings");
            None
        }
    }
}

/// The path of a key in the object at `path`; keys that are no plain names are quoted.
pub fn joined_path(path: &str, key: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let key = match !key.is_empty() && key.len() <= 60 && key.chars().all(is_plain) {
        true => key.to_owned(),
        false => shown(key),
    };
    match path.is_empty() {
        true => key,
        false => format!("{path}.{key}"),
    }
}

/// All items, so that each one that is wrong gets reported; `None` if any was.
fn all<T>(items: impl Iterator<Item = Option<T>>) -> Option<Vec<T>> {
    let items: Vec<Option<T>> = items.collect();
    items.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_nobody_took_is_named_with_the_nearest_name() {
        let value = json!({"a": 1, "pathh": "x", "b\n": 2, "c": null});
        let report = Report::default();
        let mut fields = Fields::new("db", value.as_object().unwrap(), &report);
        assert_eq!(fields.whole("a", 0..=9), Some(1));
        assert_eq!(fields.text("path"), None);
        fields.finish();
        let warnings: Vec<String> =
            report.finish().unwrap().iter().map(Warning::to_string).collect();
        let wanted = [
            "db.pathh: not known; did you mean path?",
            r#"db."b\n": not known"#,
            "db.c: not known",
        ];
        assert_eq!(warnings, wanted);
    }

    #[test]
    fn wrong_values_say_what_was_found_and_what_is_allowed() {
        let value = json!({
            "whole": 12, "real": "2", "flag": "maybe", "text": 4, "list": [1, -2, "x"],
            "secret": 5, "section": [], "choice": "C",
        });
        let report = Report::default();
        let mut fields = Fields::new("", value.as_object().unwrap(), &report);
        assert_eq!(fields.whole("whole", 1..=9), None);
        assert_eq!(fields.real("real", Reals::Fraction), None);
        assert_eq!(fields.flag("flag"), None);
        assert_eq!(fields.text("text"), None);
        assert_eq!(fields.secret("secret"), None);
        assert_eq!(fields.wholes("list", 0..=9), None);
        assert!(matches!(fields.section("section"), Section::Null));
        assert_eq!(fields.choice("choice", &[(&["a", "alpha"], 1), (&["b"], 2)]), None);
        fields.missing("other", "a number");
        assert_eq!(
            report.finish().unwrap_err().to_string(),
            "whole: found 12, allowed: a whole number from 1 to 9\n\
             real: found \"2\", allowed: a number from 0 to 1\n\
             flag: found \"maybe\", allowed: true or false\n\
             text: found 4, allowed: a string\n\
             secret: found a value of another kind, allowed: a string\n\
             list[1]: found -2, allowed: a whole number from 0 to 9\n\
             list[2]: found \"x\", allowed: a whole number from 0 to 9\n\
             section: found a list of 0, allowed: an object\n\
             choice: found \"C\", allowed: a, b\n\
             other: not given, needed: a number"
        );
    }
}
