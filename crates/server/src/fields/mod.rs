//! The fields of a JSON request, taken one by one by name.
//!
//! Reading by name, not by one large struct, gives each complaint its field, and leaves what
//! nobody took. Values stay the client's text until they are taken, so that what is too large is
//! refused before anything is built from it, and a list of token ids never becomes JSON values.
//! Invariant: a field is taken, refused with a reason, or refused as unknown; an option that
//! changes the output is never dropped in silence.

mod body;
mod field_limits;
mod field_value;
mod ignored_fields;
mod json_request;
mod json_scan;
mod raw_fields;

use std::ops::RangeInclusive;
use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::api_error::{ApiError, ApiResult};
use crate::limits::Limits;
use crate::middleware::Caller;
pub use body::{body_too_long, read_body};
pub use field_value::{FieldValue, check_items, items_of, wrong_type};
pub use ignored_fields::IgnoredFields;
pub use json_request::JsonRequest;
pub use json_scan::{Counts, Kind};
use raw_fields::fields_of;

pub struct Fields {
    /// Where the object stands in the request; empty for the body itself.
    path: String,
    fields: Vec<(String, Box<RawValue>)>,
    /// The most choices that this server gives to a request.
    pub max_choices: usize,
    /// Whose request it is.
    pub caller: Caller,
    /// Where the names of unknown fields are noted, where they are ignored instead of refused.
    ignored: Option<Arc<IgnoredFields>>,
}

impl Fields {
    /// The fields of a body.
    pub fn parse(body: &[u8]) -> ApiResult<Self> {
        let bad = |message| ApiError::bad_body(StatusCode::BAD_REQUEST, message);
        let body = str::from_utf8(body).map_err(|error| {
            bad(format!("the body is not UTF-8: byte {} is wrong", error.valid_up_to()))
        })?;
        let json: &RawValue = serde_json::from_str(body)
            .map_err(|error| bad(format!("the body is not valid JSON: {error}")))?;
        let kind = Kind::of(json.get());
        if kind != Kind::Object {
            return Err(bad(format!("the body must be a JSON object, not {}", kind.name())));
        }
        let fields = fields_of(json, "")?;
        let max_choices = Limits::default().choices;
        let (path, caller) = (String::new(), Caller::default());
        Ok(Self { path, fields, max_choices, caller, ignored: None })
    }

    /// The field's value; `null` is as good as absent.
    pub fn take<T: FieldValue>(&mut self, name: &str) -> ApiResult<Option<T>> {
        let Some(json) = self.take_raw(name) else { return Ok(None) };
        T::read(&json, &self.path_of(name)).map(Some)
    }

    /// The value of a field that must be there.
    pub fn require<T: FieldValue>(&mut self, name: &str) -> ApiResult<T> {
        self.take(name)?.ok_or_else(|| ApiError::missing(&self.path_of(name)))
    }

    /// The field as JSON.
    pub fn take_value(&mut self, name: &str) -> ApiResult<Option<Value>> {
        self.take(name)
    }

    /// The field's text as it came.
    pub fn take_raw(&mut self, name: &str) -> Option<Box<RawValue>> {
        #[cfg(test)]
        if self.path.is_empty() {
            tests::TAKEN.with_borrow_mut(|taken| taken.insert(name.to_owned()));
        }
        let index = self.fields.iter().position(|(field, _)| field == name)?;
        let (_, json) = self.fields.remove(index);
        (json.get() != "null").then_some(json)
    }

    /// The fields of an object within.
    pub fn take_object(&mut self, name: &str) -> ApiResult<Option<Self>> {
        let Some(json) = self.take_raw(name) else { return Ok(None) };
        self.nested(&json, self.path_of(name)).map(Some)
    }

    /// The fields of each object of a list of at most `limit`.
    pub fn take_objects(&mut self, name: &str, limit: usize) -> ApiResult<Option<Vec<Self>>> {
        let Some(json) = self.take_raw(name) else { return Ok(None) };
        let path = self.path_of(name);
        let objects = items_of(&json, &path, limit)?.into_iter().enumerate();
        let nested = objects.map(|(index, json)| self.nested(json, format!("{path}[{index}]")));
        nested.collect::<Result<_, _>>().map(Some)
    }

    /// The fields of an object that stands at `path`.
    pub fn nested(&self, json: &RawValue, path: String) -> ApiResult<Self> {
        if Kind::of(json.get()) != Kind::Object {
            return Err(wrong_type(json, &path, "an object"));
        }
        let fields = fields_of(json, &path)?;
        let ignored = self.ignored.clone();
        Ok(Self { path, fields, max_choices: self.max_choices, caller: self.caller, ignored })
    }

    /// A whole number of a range that depends on the server.
    pub fn take_in(&mut self, name: &str, range: RangeInclusive<i64>) -> ApiResult<Option<i64>> {
        let Some(json) = self.take_raw(name) else { return Ok(None) };
        field_value::whole_number_in(&json, &self.path_of(name), range).map(Some)
    }

    /// The one value given under any of several names for the same thing.
    pub fn take_alias<T>(&mut self, names: &[&str]) -> ApiResult<Option<T>>
    where
        T: FieldValue + PartialEq,
    {
        let mut found: Option<(&str, T)> = None;
        for name in names {
            let Some(value) = self.take::<T>(name)? else { continue };
            match &found {
                Some((first, other)) if *other != value => {
                    let message = format!("{name} and {first} mean the same but differ");
                    return Err(ApiError::invalid(name, message));
                }
                _ => found = Some((name, value)),
            }
        }
        Ok(found.map(|(_, value)| value))
    }

    /// One text or a list of texts.
    pub fn take_texts(&mut self, name: &str) -> ApiResult<Option<Vec<String>>> {
        match self.kind_of(name) {
            Some(Kind::String) => Ok(self.take(name)?.map(|text| vec![text])),
            _ => self.take(name),
        }
    }

    /// A boolean; `"true"` and `"false"` are taken too, as some older clients send them.
    pub fn take_flag(&mut self, name: &str) -> ApiResult<Option<bool>> {
        let Some(json) = self.take_raw(name) else { return Ok(None) };
        match json.get() {
            r#""true""# => Ok(Some(true)),
            r#""false""# => Ok(Some(false)),
            _ => bool::read(&json, &self.path_of(name)).map(Some),
        }
    }

    /// What the field is, if it is there; `null` is not there.
    pub fn kind_of(&self, name: &str) -> Option<Kind> {
        let json = self.fields.iter().find(|(field, _)| field == name)?;
        Some(Kind::of(json.1.get())).filter(|kind| *kind != Kind::Null)
    }

    /// Refuses the field with a reason, unless its value asks for nothing.
    pub fn refuse(&mut self, name: &str, reason: &str) -> ApiResult<()> {
        let Some(index) = self.fields.iter().position(|(field, _)| field == name) else {
            return Ok(());
        };
        let (_, json) = self.fields.remove(index);
        match asks_for_nothing(&json) {
            true => Ok(()),
            false => {
                let path = self.path_of(name);
                Err(ApiError::invalid(&path, format!("{path} is not supported: {reason}")))
            }
        }
    }

    /// Drops fields that cannot change the output.
    pub fn ignore(&mut self, names: &[&str]) {
        self.fields.retain(|(field, _)| !names.contains(&field.as_str()));
    }

    /// Refuses what nobody took, or notes it where the server ignores what it does not know.
    pub fn finish(self) -> ApiResult<()> {
        let mut unknown = self.fields.iter().filter(|(_, json)| json.get() != "null");
        if let Some(ignored) = &self.ignored {
            ignored.extend(unknown.map(|(name, _)| self.path_of(name)));
            return Ok(());
        }
        match unknown.next() {
            Some((name, _)) => {
                let path = self.path_of(name);
                Err(ApiError::invalid(&path, format!("unknown field {path:?}")))
            }
            None => Ok(()),
        }
    }

    /// Where a field of this object stands in the request.
    pub fn path_of(&self, name: &str) -> String {
        match self.path.is_empty() {
            true => name.to_owned(),
            false => format!("{}.{name}", self.path),
        }
    }
}

impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.fields.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}

fn asks_for_nothing(json: &RawValue) -> bool {
    match json.get() {
        "null" | "false" | r#""""# => true,
        text => matches!(Kind::of(text), Kind::Array | Kind::Object) && Counts::of(text).items == 0,
    }
}

#[cfg(test)]
pub mod tests;
