//! The parameters of one class, read from a configuration.

use super::gin_config::{GinBinding, GinConfig, last_part};
use super::gin_error::GinError;
use super::gin_value::GinValue;
use crate::near_names::near_names;

/// A class that a configuration may bind, and all its parameters.
#[derive(Debug)]
pub struct GinClass {
    pub name: &'static str,
    pub params: &'static [&'static str],
}

/// A key that no class has.
#[derive(Clone, Debug)]
pub struct UnknownKey {
    pub key: String,
    pub file: String,
    pub line: usize,
    /// What may have been meant.
    pub near: Option<String>,
}

impl std::fmt::Display for UnknownKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}:{}", self.key, self.file, self.line)?;
        match &self.near {
            Some(near) => write!(f, "; did you mean {near}?)"),
            None => write!(f, ")"),
        }
    }
}

/// A class in a scope.
pub struct GinArgs<'a> {
    config: &'a GinConfig,
    scope: &'a str,
    class: &'static GinClass,
}

impl<'a> GinArgs<'a> {
    pub fn new(config: &'a GinConfig, scope: &'a str, class: &'static GinClass) -> Self {
        GinArgs { config, scope, class }
    }

    /// Whether a parameter is bound.
    pub fn has(&self, param: &str) -> bool {
        self.binding(param).is_some()
    }

    /// Whether any is.
    pub fn has_any(&self) -> bool {
        self.class.params.iter().any(|param| self.has(param))
    }

    /// A parameter's value; `None` where it is not bound, or is None.
    pub fn get<T: FromGin>(&self, param: &str) -> Result<Option<T>, GinError> {
        let Some(binding) = self.binding(param) else { return Ok(None) };
        let value = self.config.resolved(binding)?;
        if value == GinValue::None {
            return Ok(None);
        }
        T::from_gin(&value).map(Some).map_err(|wanted| self.wrong(binding, &value, wanted))
    }

    pub fn or<T: FromGin>(&self, param: &str, default: T) -> Result<T, GinError> {
        Ok(self.get(param)?.unwrap_or(default))
    }

    pub fn required<T: FromGin>(&self, param: &str) -> Result<T, GinError> {
        self.get(param)?.ok_or_else(|| self.missing(param))
    }

    /// The error for a parameter that must be bound.
    pub fn missing(&self, param: &str) -> GinError {
        let slash = if self.scope.is_empty() { "" } else { "/" };
        GinError::Missing { key: format!("{}{slash}{}.{param}", self.scope, self.class.name) }
    }

    /// A text that is one of a few, whatever its case.
    pub fn one_of<T: Copy>(
        &self,
        param: &str,
        known: &[(&'static str, T)],
    ) -> Result<Option<T>, GinError> {
        let Some(text) = self.get::<String>(param)? else { return Ok(None) };
        let found = known.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
        if let Some((_, value)) = found {
            return Ok(Some(*value));
        }
        let binding = self.binding(param).expect("it has a value");
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        let wanted = format!("one of {}", names.join(", "));
        Err(self.wrong(binding, &GinValue::Text(text), wanted))
    }

    fn binding(&self, param: &str) -> Option<&'a GinBinding> {
        assert!(self.class.params.contains(&param), "{}.{param}", self.class.name);
        self.config.binding(self.scope, self.class.name, param)
    }

    fn wrong(&self, binding: &GinBinding, value: &GinValue, wanted: String) -> GinError {
        let found = match value {
            GinValue::Tuple(_) | GinValue::List(_) | GinValue::Dict(_) => value.kind().to_owned(),
            _ => value.to_string(),
        };
        let (file, line, key) = (binding.file.to_string(), binding.line, binding.key.clone());
        GinError::Kind { file, line, key, found, wanted }
    }
}

impl GinConfig {
    /// Bindings that none of the classes has a parameter for.
    pub fn unknown_keys(&self, classes: &[&GinClass]) -> Vec<UnknownKey> {
        let unknown = self.bindings().filter_map(|(_, name, param, binding)| {
            let class = classes.iter().find(|class| class.name == name);
            let near = match class {
                Some(class) if class.params.contains(&param) => return None,
                Some(class) => {
                    let near = near_names(param, class.params.iter().copied());
                    near.first().map(|near| format!("{name}.{near}"))
                }
                None => {
                    let near = near_names(name, classes.iter().map(|class| class.name));
                    near.first().map(|near| format!("{near}.{param}"))
                }
            };
            let (key, file) = (binding.key.clone(), binding.file.to_string());
            Some(UnknownKey { key, file, line: binding.line, near })
        });
        unknown.collect()
    }
}

/// A type that values can be read as.
pub trait FromGin: Sized {
    /// If it cannot, says what is wanted.
    fn from_gin(value: &GinValue) -> Result<Self, String>;
}

impl FromGin for usize {
    fn from_gin(value: &GinValue) -> Result<Self, String> {
        let wanted = || "a whole number from 0 on".to_owned();
        match value {
            GinValue::Int(value) => usize::try_from(*value).map_err(|_| wanted()),
            _ => Err(wanted()),
        }
    }
}

impl FromGin for i64 {
    fn from_gin(value: &GinValue) -> Result<Self, String> {
        match value {
            GinValue::Int(value) => Ok(*value),
            _ => Err("a whole number".to_owned()),
        }
    }
}

impl FromGin for f64 {
    fn from_gin(value: &GinValue) -> Result<Self, String> {
        match value {
            GinValue::Float(value) => Ok(*value),
            GinValue::Int(value) => Ok(*value as f64),
            _ => Err("a number".to_owned()),
        }
    }
}

impl FromGin for bool {
    fn from_gin(value: &GinValue) -> Result<Self, String> {
        match value {
            GinValue::Bool(value) => Ok(*value),
            _ => Err("True or False".to_owned()),
        }
    }
}

impl FromGin for String {
    fn from_gin(value: &GinValue) -> Result<Self, String> {
        match value {
            GinValue::Text(text) => Ok(text.clone()),
            _ => Err("a string".to_owned()),
        }
    }
}

/// A list or a tuple.
impl<T: FromGin> FromGin for Vec<T> {
    fn from_gin(value: &GinValue) -> Result<Self, String> {
        let items = value.items().ok_or("a list")?;
        let items = items.iter().map(T::from_gin);
        items.collect::<Result<_, _>>().map_err(|wanted| format!("a list, each item {wanted}"))
    }
}

/// What a called reference names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Called {
    pub scope: String,
    /// Without its modules.
    pub name: String,
}

impl FromGin for Called {
    fn from_gin(value: &GinValue) -> Result<Self, String> {
        match value {
            GinValue::Reference { scope, name, is_called: true } => {
                Ok(Called { scope: scope.clone(), name: last_part(name).to_owned() })
            }
            _ => Err("a reference @scope/Name()".to_owned()),
        }
    }
}
