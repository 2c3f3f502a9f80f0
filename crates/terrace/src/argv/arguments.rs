//! Words of a command line, taken together with what belongs to them.

use std::ffi::OsString;

use super::own_options::{OwnName, OwnOptions, is_value};
use crate::options::{Arity, OwnOption, PeerFlag, SWITCH_VALUES};

#[derive(Debug)]
pub enum Argument {
    /// An option of ours, with the value that was typed, if one was.
    Own { long: String, value: Option<OsString> },
    /// A flag of others that says the same as an option of ours.
    Peer { typed: String, own: OwnOption },
    /// Anything else, as typed.
    Word(OsString),
}

/// The words behind a command's name. The error says which flag cannot be followed, and why.
pub fn read(words: &[OsString], options: &OwnOptions<'_>) -> Result<Vec<Argument>, String> {
    let mut arguments = Vec::new();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        if word == "--" {
            arguments.push(Argument::Word(word.clone()));
            arguments.extend(rest.by_ref().cloned().map(Argument::Word));
            break;
        }
        let Some(typed) = Typed::read(word) else {
            arguments.push(Argument::Word(word.clone()));
            continue;
        };
        if let Some(option) = typed.own(options) {
            let next = rest.next_if(|next| typed.value.is_none() && option.takes(next));
            let value = typed.value.map(OsString::from).or(next.cloned());
            arguments.push(Argument::Own { long: option.long.to_owned(), value });
        } else if let Some(flag) = typed.peer(options) {
            let next = rest.next_if(|next| typed.value.is_none() && belongs_to(flag, next));
            let value = typed.value.or(next.and_then(|next| next.to_str()));
            arguments.extend(peer_argument(flag, typed.name, value)?);
        } else {
            arguments.push(Argument::Word(word.clone()));
        }
    }
    Ok(arguments)
}

/// A word that begins with a hyphen, parted at its equals sign.
struct Typed<'a> {
    /// With its hyphens.
    name: &'a str,
    value: Option<&'a str>,
}

impl<'a> Typed<'a> {
    fn read(word: &'a OsString) -> Option<Self> {
        let word = word.to_str().filter(|word| word.starts_with('-') && word.len() > 1)?;
        Some(match word.split_once('=') {
            Some((name, value)) => Typed { name, value: Some(value) },
            None => Typed { name: word, value: None },
        })
    }

    /// The option of ours with this name. `-mVALUE` is left to the parser.
    fn own<'o>(&self, options: &OwnOptions<'o>) -> Option<OwnName<'o>> {
        if let Some(name) = self.name.strip_prefix("--") {
            return options.long(name);
        }
        let mut letters = self.name.chars().skip(1);
        match (letters.next(), letters.next()) {
            (Some(letter), None) => options.short(letter),
            _ => None,
        }
    }

    fn peer(&self, options: &OwnOptions<'_>) -> Option<&'static PeerFlag> {
        let name = match self.name.starts_with("--") {
            true => self.name.replace('_', "-"),
            false => self.name.to_owned(),
        };
        PeerFlag::find(&name).filter(|flag| options.long(flag.needs_option()).is_some())
    }
}

fn peer_argument(
    flag: &PeerFlag,
    typed: &str,
    value: Option<&str>,
) -> Result<Option<Argument>, String> {
    match (flag.arity, value) {
        (Arity::Value, None) => return Err(format!("{typed} needs a value behind it")),
        (Arity::Switch, Some(value)) => return Err(format!("{typed} takes no value ({value})")),
        _ => {}
    }
    let typed = match value {
        Some(value) => format!("{typed} {value}"),
        None => typed.to_owned(),
    };
    match flag.own_option(value) {
        Ok(own) => Ok(own.map(|own| Argument::Peer { typed, own })),
        Err(why) => Err(format!("{typed}: {why}")),
    }
}

fn belongs_to(flag: &PeerFlag, next: &OsString) -> bool {
    match flag.arity {
        Arity::Switch => false,
        Arity::Value => is_value(next),
        Arity::SwitchOrValue => SWITCH_VALUES.iter().any(|value| next == value),
    }
}
