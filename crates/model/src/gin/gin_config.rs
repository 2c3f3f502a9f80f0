//! The bindings of a gin file and of the files that it includes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::gin_error::GinError;
use super::gin_parser::{GinParser, StatementKind};
use super::gin_value::GinValue;

#[derive(Clone, Debug, Default)]
pub struct GinConfig {
    /// By scope, name and parameter; of several bindings the last is here.
    bindings: BTreeMap<(String, String, String), GinBinding>,
    macros: BTreeMap<String, GinBinding>,
}

/// A value, and where it was given.
#[derive(Clone, Debug)]
pub struct GinBinding {
    /// As a file would have it: `scope/Name.param`, or the name of a macro.
    pub key: String,
    pub value: GinValue,
    pub file: Arc<str>,
    pub line: usize,
}

/// Files that include each other.
const INCLUDES_MOST: usize = 32;
/// Macros in macros.
const MACRO_DEPTH_MOST: usize = 16;
/// Values that one binding may stand for.
const VALUES_MOST: usize = 1 << 16;

impl GinConfig {
    /// Reads a file. What it includes is looked for as gin does, from the working directory; then
    /// beside the including file, and in the folders above.
    pub fn open(path: &Path) -> Result<Self, GinError> {
        let mut config = GinConfig::default();
        config.add_file(path, INCLUDES_MOST)?;
        Ok(config)
    }

    /// A text without a folder, so without includes. `name` stands for it in errors.
    pub fn from_text(name: &str, text: &str) -> Result<Self, GinError> {
        let mut config = GinConfig::default();
        config.add_text(name, text)?;
        Ok(config)
    }

    /// Adds the bindings of a text, which count more than those that are there.
    pub fn add_text(&mut self, name: &str, text: &str) -> Result<(), GinError> {
        self.add(name, text, &mut |included, line| {
            Err(GinError::Syntax {
                file: name.to_owned(),
                line,
                problem: format!("a text cannot include {included:?}"),
            })
        })
    }

    fn add_file(&mut self, path: &Path, includes_left: usize) -> Result<(), GinError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| GinError::Read { file: name.clone(), source })?;
        let mut included_config = |included: &str, line: usize| {
            let Some(left) = includes_left.checked_sub(1) else {
                let problem = format!("more than {INCLUDES_MOST} files include each other");
                return Err(GinError::Syntax { file: name.clone(), line, problem });
            };
            let path = find_included(path, included).map_err(|tried| GinError::IncludeMissing {
                file: name.clone(),
                line,
                included: included.to_owned(),
                tried,
            })?;
            let mut config = GinConfig::default();
            config.add_file(&path, left)?;
            Ok(config)
        };
        self.add(&name, &text, &mut included_config)
    }

    fn add(
        &mut self,
        name: &str,
        text: &str,
        include: &mut dyn FnMut(&str, usize) -> Result<GinConfig, GinError>,
    ) -> Result<(), GinError> {
        let file: Arc<str> = name.into();
        let statements = GinParser::statements(text)
            .map_err(|(line, problem)| GinError::Syntax { file: name.to_owned(), line, problem })?;
        for statement in statements {
            let line = statement.line;
            let binding =
                |key: String, value| GinBinding { key, value, file: Arc::clone(&file), line };
            match statement.kind {
                StatementKind::Binding { scope, name, param, value } => {
                    let slash = if scope.is_empty() { "" } else { "/" };
                    let key = format!("{scope}{slash}{name}.{param}");
                    let class = last_part(&name).to_owned();
                    self.bindings.insert((scope, class, param), binding(key, value));
                }
                StatementKind::Macro { name, value } => {
                    self.macros.insert(name.clone(), binding(name, value));
                }
                StatementKind::Include { file } => {
                    let included = include(&file, line)?;
                    self.bindings.extend(included.bindings);
                    self.macros.extend(included.macros);
                }
                StatementKind::Import => {}
            }
        }
        Ok(())
    }

    /// All bindings but macros: scope, name without modules, parameter, binding.
    pub fn bindings(&self) -> impl Iterator<Item = (&str, &str, &str, &GinBinding)> {
        self.bindings.iter().map(|((scope, name, param), binding)| {
            (scope.as_str(), name.as_str(), param.as_str(), binding)
        })
    }

    /// What a parameter has in a scope: its own value, or that of the nearest scope around it.
    pub fn binding(&self, scope: &str, name: &str, param: &str) -> Option<&GinBinding> {
        let mut scope = scope;
        loop {
            let key = (scope.to_owned(), name.to_owned(), param.to_owned());
            if let Some(binding) = self.bindings.get(&key) {
                return Some(binding);
            }
            if scope.is_empty() {
                return None;
            }
            scope = scope.rsplit_once('/').map_or("", |(outer, _)| outer);
        }
    }

    /// A binding's value with what its macros stand for.
    pub fn resolved(&self, binding: &GinBinding) -> Result<GinValue, GinError> {
        let mut values_left = VALUES_MOST;
        self.resolve(&binding.value, binding, MACRO_DEPTH_MOST, &mut values_left)
    }

    fn resolve(
        &self,
        value: &GinValue,
        within: &GinBinding,
        depth_left: usize,
        values_left: &mut usize,
    ) -> Result<GinValue, GinError> {
        let left = values_left.checked_sub(1).ok_or_else(|| {
            within.wrong(format!("{} stands for more than {VALUES_MOST} values", within.key))
        })?;
        *values_left = left;
        let mut all = |values: &[GinValue]| -> Result<Vec<GinValue>, GinError> {
            let values = values.iter();
            values.map(|value| self.resolve(value, within, depth_left, values_left)).collect()
        };
        match value {
            GinValue::Macro(name) => {
                let defined = self.macros.get(name);
                let defined =
                    defined.ok_or_else(|| within.wrong(format!("%{name} is not defined")))?;
                let depth = depth_left.checked_sub(1).ok_or_else(|| {
                    within.wrong(format!(
                        "%{name} is defined by itself, or over more than {MACRO_DEPTH_MOST} others"
                    ))
                })?;
                self.resolve(&defined.value, defined, depth, values_left)
            }
            GinValue::Tuple(values) => all(values).map(GinValue::Tuple),
            GinValue::List(values) => all(values).map(GinValue::List),
            GinValue::Dict(entries) => {
                let mut resolved = Vec::new();
                for (key, value) in entries {
                    let key = self.resolve(key, within, depth_left, values_left)?;
                    let value = self.resolve(value, within, depth_left, values_left)?;
                    resolved.push((key, value));
                }
                Ok(GinValue::Dict(resolved))
            }
            plain => Ok(plain.clone()),
        }
    }
}

impl GinBinding {
    fn wrong(&self, problem: String) -> GinError {
        GinError::Syntax { file: self.file.to_string(), line: self.line, problem }
    }
}

/// Modules may stand in front of a name.
pub fn last_part(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, last)| last)
}

/// The file that an include means, or where it was looked for.
fn find_included(including: &Path, included: &str) -> Result<PathBuf, String> {
    let from_here = PathBuf::from(included);
    let above = including.ancestors().skip(1).map(|folder| folder.join(included));
    let tried: Vec<PathBuf> = [from_here].into_iter().chain(above).collect();
    let found = tried.iter().find(|path| path.is_file()).cloned();
    found.ok_or_else(|| {
        let tried: Vec<String> = tried.iter().map(|path| path.display().to_string()).collect();
        tried.join(", ")
    })
}
