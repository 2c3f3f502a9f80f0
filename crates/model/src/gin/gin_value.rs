//! A value of a binding: a literal of Python, or a reference.

use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub enum GinValue {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Tuple(Vec<GinValue>),
    List(Vec<GinValue>),
    Dict(Vec<(GinValue, GinValue)>),
    /// `@scope/name`, or `@scope/name()` for what it makes when called.
    Reference {
        scope: String,
        name: String,
        is_called: bool,
    },
    /// `%name`
    Macro(String),
}

impl GinValue {
    /// What it is, in Python's words.
    pub fn kind(&self) -> &'static str {
        match self {
            GinValue::None => "None",
            GinValue::Bool(_) => "a bool",
            GinValue::Int(_) => "an int",
            GinValue::Float(_) => "a float",
            GinValue::Text(_) => "a string",
            GinValue::Tuple(_) => "a tuple",
            GinValue::List(_) => "a list",
            GinValue::Dict(_) => "a dict",
            GinValue::Reference { .. } => "a reference",
            GinValue::Macro(_) => "a macro",
        }
    }

    /// The items of a list or tuple.
    pub fn items(&self) -> Option<&[GinValue]> {
        match self {
            GinValue::Tuple(items) | GinValue::List(items) => Some(items),
            _ => None,
        }
    }
}

/// As Python writes it, so that a file can be made of it.
impl fmt::Display for GinValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GinValue::None => write!(f, "None"),
            GinValue::Bool(true) => write!(f, "True"),
            GinValue::Bool(false) => write!(f, "False"),
            GinValue::Int(value) => write!(f, "{value}"),
            GinValue::Float(value) => write!(f, "{value:?}"),
            GinValue::Text(text) => write_text(f, text),
            GinValue::Tuple(items) => {
                write_all(f, "(", items)?;
                write!(f, "{}", if items.len() == 1 { ",)" } else { ")" })
            }
            GinValue::List(items) => {
                write_all(f, "[", items)?;
                write!(f, "]")
            }
            GinValue::Dict(entries) => {
                write!(f, "{{")?;
                for (at, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if at == 0 { "" } else { ", " })?;
                }
                write!(f, "}}")
            }
            GinValue::Reference { scope, name, is_called } => {
                let slash = if scope.is_empty() { "" } else { "/" };
                write!(f, "@{scope}{slash}{name}{}", if *is_called { "()" } else { "" })
            }
            GinValue::Macro(name) => write!(f, "%{name}"),
        }
    }
}

fn write_all(f: &mut fmt::Formatter<'_>, open: &str, items: &[GinValue]) -> fmt::Result {
    write!(f, "{open}")?;
    for (at, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if at == 0 { "" } else { ", " })?;
    }
    Ok(())
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    write!(f, "'")?;
    for char in text.chars() {
        match char {
            '\'' | '\\' => write!(f, "\\{char}")?,
            '\n' => write!(f, "\\n")?,
            '\r' => write!(f, "\\r")?,
            '\t' => write!(f, "\\t")?,
            char if char.is_control() => write!(f, "\\U{:08x}", u32::from(char))?,
            char => write!(f, "{char}")?,
        }
    }
    write!(f, "'")
}
