//! Arguments of a policy as a user wrote them, asked for by name.
//!
//! What a policy asks for is what it takes: a name that nobody asked for is an error, which lists
//! the others. Nothing is dropped in silence.

use std::collections::BTreeMap;

use super::error::PolicyError;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyArgs {
    given: BTreeMap<String, ArgValue>,
    /// Of those that are not given and asked for, where they differ from the policy's own.
    defaults: &'static [(&'static str, ArgValue)],
    asked: Vec<&'static str>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ArgValue {
    Flag(bool),
    Number(f64),
    Text(String),
}

impl PolicyArgs {
    pub fn new(given: impl IntoIterator<Item = (String, ArgValue)>) -> Self {
        PolicyArgs { given: given.into_iter().collect(), ..PolicyArgs::default() }
    }

    pub fn set(&mut self, name: &str, value: ArgValue) {
        self.given.insert(name.to_owned(), value);
    }

    pub fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    /// The same with other defaults than the policy's.
    pub(super) fn with_defaults(self, defaults: &'static [(&'static str, ArgValue)]) -> Self {
        PolicyArgs { defaults, ..self }
    }

    /// A whole number that is not negative and fits into 32 bits.
    pub fn count(&mut self, name: &'static str) -> Result<Option<usize>, PolicyError> {
        let counts = 0.0..=f64::from(i32::MAX);
        self.take(name, "a whole number from 0 to 2147483647", |value| match value {
            ArgValue::Number(number) if counts.contains(number) && number.fract() == 0.0 => {
                Some(*number as usize)
            }
            _ => None,
        })
    }

    /// A number from 0 up to, but not, 1.
    pub fn fraction(&mut self, name: &'static str) -> Result<Option<f64>, PolicyError> {
        self.take(name, "a number from 0 and below 1", |value| match value {
            ArgValue::Number(number) if (0.0..1.0).contains(number) => Some(*number),
            _ => None,
        })
    }

    /// A number from 0 to 1.
    pub fn share(&mut self, name: &'static str) -> Result<Option<f64>, PolicyError> {
        self.take(name, "a number from 0 to 1", |value| match value {
            ArgValue::Number(number) if (0.0..=1.0).contains(number) => Some(*number),
            _ => None,
        })
    }

    pub fn flag(&mut self, name: &'static str) -> Result<Option<bool>, PolicyError> {
        self.take(name, "true or false", |value| match value {
            ArgValue::Flag(flag) => Some(*flag),
            _ => None,
        })
    }

    /// A text; what looks like a number or a flag is one too.
    pub fn text(&mut self, name: &'static str) -> Result<Option<String>, PolicyError> {
        self.take(name, "a text", |value| match value {
            ArgValue::Text(text) => Some(text.clone()),
            other => Some(other.to_string()),
        })
    }

    /// Everything that was given must have been asked for.
    pub(super) fn finish(self, policy: &str) -> Result<(), PolicyError> {
        match self.given.keys().find(|name| !self.asked.contains(&name.as_str())) {
            None => Ok(()),
            Some(argument) => Err(PolicyError::UnknownArgument {
                policy: policy.to_owned(),
                argument: argument.clone(),
                valid: if self.asked.is_empty() { "none".into() } else { self.asked.join(", ") },
            }),
        }
    }

    fn take<T>(
        &mut self,
        name: &'static str,
        wanted: &str,
        read: impl Fn(&ArgValue) -> Option<T>,
    ) -> Result<Option<T>, PolicyError> {
        self.asked.push(name);
        let default = || self.defaults.iter().find(|(known, _)| *known == name);
        let value = self.given.get(name).or_else(|| default().map(|(_, value)| value));
        let Some(value) = value else { return Ok(None) };
        let bad = || PolicyError::BadArgument {
            argument: name.to_owned(),
            value: value.to_string(),
            wanted: wanted.to_owned(),
        };
        read(value).map(Some).ok_or_else(bad)
    }
}

impl ArgValue {
    /// As on a command line: `true`, `false`, a number, or else a text.
    pub fn parse(word: &str) -> ArgValue {
        match (word.parse(), word.parse()) {
            (Ok(flag), _) => ArgValue::Flag(flag),
            (_, Ok(number)) => ArgValue::Number(number),
            _ => ArgValue::Text(word.to_owned()),
        }
    }
}

impl std::fmt::Display for ArgValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ArgValue::Flag(flag) => write!(f, "{flag}"),
            ArgValue::Number(number) => write!(f, "{number}"),
            ArgValue::Text(text) => write!(f, "{text:?}"),
        }
    }
}
