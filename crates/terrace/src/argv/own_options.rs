//! What a command takes as options, as far as spelling needs to know it.

use std::ffi::OsStr;

use clap::{Arg, Command};

use crate::options::flag;

pub struct OwnOptions<'a> {
    /// Those with a long name; all of ours have one.
    options: Vec<&'a Arg>,
}

/// An option under the name that the parser knows first.
pub struct OwnName<'a> {
    pub long: &'a str,
    option: &'a Arg,
}

impl<'a> OwnOptions<'a> {
    pub fn of(command: &'a Command) -> Self {
        Self { options: command.get_arguments().filter(|arg| arg.get_long().is_some()).collect() }
    }

    /// By any of its names, whose hyphens may be underscores.
    pub fn long(&self, name: &str) -> Option<OwnName<'a>> {
        let name = name.replace('_', "-");
        self.find(|arg| {
            let names = arg.get_long_and_visible_aliases().unwrap_or_default();
            names.contains(&name.as_str())
        })
    }

    pub fn short(&self, letter: char) -> Option<OwnName<'a>> {
        self.find(|arg| arg.get_short() == Some(letter))
    }

    /// The long names.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        self.options.iter().filter_map(|arg| arg.get_long())
    }

    fn find(&self, is_meant: impl Fn(&Arg) -> bool) -> Option<OwnName<'a>> {
        let option = self.options.iter().copied().find(|arg| is_meant(arg))?;
        Some(OwnName { long: option.get_long()?, option })
    }
}

impl OwnName<'_> {
    /// By which the parser's matches know it.
    pub fn id(&self) -> &str {
        self.option.get_id().as_str()
    }

    /// Whether the word behind the option is its value.
    pub fn takes(&self, next: &OsStr) -> bool {
        match (self.option.get_action().takes_values(), self.option.is_require_equals_set()) {
            (true, false) => is_value(next),
            // A switch that may be set to false.
            (true, true) => next.to_str().is_some_and(|next| flag(next).is_ok()),
            (false, _) => false,
        }
    }
}

/// A number may be below zero; anything else that begins with a hyphen is the next option.
pub fn is_value(word: &OsStr) -> bool {
    let Some(text) = word.to_str() else { return true };
    match text.strip_prefix('-') {
        None | Some("") => true,
        // -5, -.5, -1GiB; -inf and -nan.
        Some(rest) => {
            rest.starts_with(|c: char| c.is_ascii_digit() || c == '.')
                || rest.parse::<f64>().is_ok()
        }
    }
}
