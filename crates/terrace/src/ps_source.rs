//! A parameter server's configuration as it is given: a JSON file, a TOML file, or a table of the
//! settings file.
//!
//! In TOML keys and values are those of ps.json. What TOML has no number for, such as a margin of
//! 2^64 - 1, may be a string, as in ps.json.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Number, Value};
use terrace_embedding::{PsConfig, Surroundings, Warning};
use toml::Table;

#[derive(Clone, Debug, PartialEq)]
pub enum PsSource {
    File(PathBuf),
    /// `[ps]` of the settings file at a path.
    Settings {
        path: PathBuf,
        config: Value,
    },
}

impl PsSource {
    /// For messages.
    pub fn name(&self) -> String {
        match self {
            PsSource::File(path) => path.display().to_string(),
            PsSource::Settings { path, .. } => format!("{} [ps]", path.display()),
        }
    }

    /// The configuration, and what is not as its writer may think.
    pub fn read(&self, cores: usize) -> Result<(PsConfig, Vec<Warning>)> {
        let wrong = || format!("cannot use the parameter server's configuration {}", self.name());
        let read = match self {
            PsSource::File(path) if is_toml(path) => {
                let config = read_toml(path).with_context(wrong)?;
                PsConfig::from_value(&config, &surroundings(path, cores))
            }
            PsSource::File(path) => PsConfig::read(path, cores),
            PsSource::Settings { path, config } => {
                PsConfig::from_value(config, &surroundings(path, cores))
            }
        };
        read.with_context(wrong)
    }
}

/// Relative paths start where the file is, and a model without a name has the file's.
fn surroundings(path: &Path, cores: usize) -> Surroundings<'_> {
    let model_name = path.file_stem().and_then(|stem| stem.to_str());
    Surroundings { folder: path.parent(), model_name, cores }
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}

fn read_toml(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path)?;
    let table: Table = text.parse()?;
    match json_of(&table) {
        Ok(value) => Ok(value),
        Err(problem) => bail!("{problem}"),
    }
}

/// The same in JSON.
pub fn json_of(table: &Table) -> Result<Value, String> {
    object_of(table, "")
}

fn object_of(table: &Table, path: &str) -> Result<Value, String> {
    let field = |(name, value): (&String, &toml::Value)| {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        Ok((name.clone(), value_of(value, &path)?))
    };
    table.iter().map(field).collect::<Result<Map<_, _>, String>>().map(Value::Object)
}

fn value_of(value: &toml::Value, path: &str) -> Result<Value, String> {
    match value {
        toml::Value::String(text) => Ok(Value::String(text.clone())),
        toml::Value::Integer(number) => Ok(Value::from(*number)),
        toml::Value::Float(number) => match Number::from_f64(*number) {
            Some(number) => Ok(Value::Number(number)),
            None => Err(format!("{path}: found {number}, allowed: a finite number")),
        },
        toml::Value::Boolean(flag) => Ok(Value::Bool(*flag)),
        toml::Value::Datetime(date) => {
            Err(format!("{path}: found the date {date}; nothing takes a date"))
        }
        toml::Value::Array(list) => {
            let items = list.iter().enumerate();
            let items = items.map(|(index, item)| value_of(item, &format!("{path}[{index}]")));
            items.collect::<Result<Vec<_>, _>>().map(Value::Array)
        }
        toml::Value::Table(table) => object_of(table, path),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TOML: &str = "supportlonglong = true
[persistent_db]
type = \"embedded\"
path = \"rows\"
[[models]]
model = \"dcn\"
sparse_files = [\"dcn0\"]
gpucacheper = 0.5
";

    #[test]
    fn toml_says_what_json_says() {
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "supportlonglong": true,
            "persistent_db": {"type": "embedded", "path": "rows"},
            "models": [{"model": "dcn", "sparse_files": ["dcn0"], "gpucacheper": 0.5}],
        });
        let files = [("ps.json", config.to_string()), ("ps.TOML", TOML.to_owned())];
        let [from_json, from_toml] = files.map(|(name, text)| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            PsSource::File(path).read(2).unwrap()
        });
        assert_eq!(from_json, from_toml);
        let path = folder.path().join("terrace.toml");
        let settings = PsSource::Settings { path, config }.read(2).unwrap();
        assert_eq!(settings, from_json, "relative paths start in the same folder");
    }

    #[test]
    fn what_json_has_not_is_refused_with_its_path() {
        let check = |toml: &str, want: &str| {
            assert_eq!(json_of(&toml.parse().unwrap()), Err(want.to_owned()));
        };
        check("[a]\nb = [1.0, nan]", "a.b[1]: found NaN, allowed: a finite number");
        check("a = 2020-01-01", "a: found the date 2020-01-01; nothing takes a date");
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, text: &str, want: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let error = format!("{:#}", PsSource::File(path).read(2).unwrap_err());
            assert!(error.contains(name) && error.contains(want), "{error}");
        };
        check("a.json", "{", "not valid JSON");
        check("b.json", r#"{"supportlonglong": true}"#, "models");
        check("c.toml", "a = ", "TOML parse error at line 1");
        check("d.toml", "supportlonglong = true\nmodels = 3", "models");
    }
}
