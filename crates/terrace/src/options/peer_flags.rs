//! Flags of vLLM and llama.cpp that people type out of habit.
//!
//! A flag is taken as the option that means the same here, or it is answered with a sentence that
//! names that option. It is never dropped: what is accepted without an effect is so anyway. The
//! flags themselves are in `table`; options of ours with the same name come first.

mod table;
mod values;

#[derive(Clone, Copy, Debug)]
pub struct PeerFlag {
    /// As they are typed, with their hyphens.
    pub names: &'static [&'static str],
    pub peer: Peer,
    pub arity: Arity,
    pub meaning: Meaning,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Vllm,
    LlamaCpp,
}

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Peer::Vllm => "vLLM",
            Peer::LlamaCpp => "llama.cpp",
        }
    }
}

/// Whether a value follows the flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    Switch,
    Value,
    /// A switch that may be followed by one of `SWITCH_VALUES`.
    SwitchOrValue,
}

pub const SWITCH_VALUES: [&str; 7] = ["on", "off", "auto", "true", "false", "0", "1"];

#[derive(Clone, Copy, Debug)]
pub enum Meaning {
    /// Another name of this option.
    Same(&'static str),
    /// This option, with a value made from the flag's.
    Converted { option: &'static str, convert: Convert, manual: &'static str },
    /// Accepted at these values (all, where the flag has none), for it is so anyway; refused at
    /// others. Either way, why.
    AlwaysSo { values: &'static [&'static str], why: &'static str },
    /// What to do instead.
    Refused(&'static str),
}

/// The option's value, nothing where the default is meant, or why the value cannot be.
pub type Convert = fn(&str) -> Result<Option<String>, String>;

/// An option of ours, as a flag says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnOption {
    /// Its long name, without hyphens before it.
    pub option: &'static str,
    pub value: String,
}

impl PeerFlag {
    pub fn find(name: &str) -> Option<&'static PeerFlag> {
        Self::all().find(|flag| flag.names.contains(&name))
    }

    pub fn all() -> impl Iterator<Item = &'static PeerFlag> {
        table::VLLM.iter().chain(table::LLAMA_CPP)
    }

    /// Those that are taken for an option of ours, a line each.
    pub fn help() -> String {
        let mut lines = "Flags of vLLM and llama.cpp that are taken:".to_owned();
        for flag in Self::all() {
            let own = match flag.meaning {
                Meaning::Same(option) => format!("--{option}"),
                Meaning::Converted { manual, .. } => manual.replace('`', ""),
                Meaning::AlwaysSo { .. } | Meaning::Refused(_) => continue,
            };
            let names = flag.names.join(", ");
            lines.push_str(&format!("\n  {names} ({}): {own}", flag.peer.name()));
        }
        lines
    }

    /// The option of ours without which a command does not know this flag. What has none of its
    /// own is about running a model.
    pub fn needs_option(&self) -> &'static str {
        match self.meaning {
            Meaning::Same(option) | Meaning::Converted { option, .. } => option,
            Meaning::AlwaysSo { .. } | Meaning::Refused(_) => "model",
        }
    }

    /// What the flag says with this value; without one it is a switch.
    pub fn own_option(&self, value: Option<&str>) -> Result<Option<OwnOption>, String> {
        let text = value.unwrap_or_default();
        let own = |option, value| Ok(Some(OwnOption { option, value }));
        match self.meaning {
            Meaning::Same(option) => own(option, text.to_owned()),
            Meaning::Converted { option, convert, .. } => match convert(text)? {
                Some(value) => own(option, value),
                None => Ok(None),
            },
            Meaning::AlwaysSo { values, why } => match value {
                Some(value) if !values.contains(&value) => Err(why.to_owned()),
                _ => Ok(None),
            },
            Meaning::Refused(why) => Err(why.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
