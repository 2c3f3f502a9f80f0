//! Which modules a field of PEFT's configuration means: names, or an expression.

use regex_automata::meta::{self, Regex};
use regex_automata::util::syntax;
use serde_json::Value;

#[derive(Clone, Debug)]
pub enum ModuleChoice {
    /// Whole names, or their last parts behind a dot.
    Names(Vec<String>),
    /// Of whole names.
    Expression(Regex),
    /// Every product of a layer.
    AllLinear,
}

/// PEFT's word for every product but the head.
const ALL_LINEAR: &str = "all-linear";

impl ModuleChoice {
    /// `None` where the field is not set.
    pub fn read(field: &str, value: Option<&Value>) -> Result<Option<Self>, String> {
        let names = match value {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) if text == ALL_LINEAR => return Ok(Some(Self::AllLinear)),
            Some(Value::String(text)) => {
                return expression(field, text, "").map(|regex| Some(Self::Expression(regex)));
            }
            Some(Value::Array(names)) => names.iter().map(Value::as_str).collect::<Option<_>>(),
            Some(_) => None,
        };
        let names: Vec<&str> =
            names.ok_or_else(|| format!("{field} is neither a list of names nor a text"))?;
        let names = names.into_iter().map(str::to_owned).collect();
        Ok(Some(ModuleChoice::Names(names)))
    }

    /// Whether it means the module, which is one of a layer or the head.
    pub fn means(&self, module: &str, is_of_layer: bool) -> bool {
        match self {
            ModuleChoice::Names(names) => names.iter().any(|name| ends_with(module, name)),
            ModuleChoice::Expression(regex) => regex.is_match(module),
            ModuleChoice::AllLinear => is_of_layer,
        }
    }

    /// The first name that means none of the modules.
    pub fn unknown_name<'a>(&self, modules: impl Iterator<Item = &'a str> + Clone) -> Option<&str> {
        let ModuleChoice::Names(names) = self else { return None };
        let means_none = |name: &&String| !modules.clone().any(|module| ends_with(module, name));
        names.iter().find(means_none).map(String::as_str)
    }
}

/// A number for each module that an expression means; the first that fits counts.
#[derive(Clone, Debug)]
pub struct ModuleNumbers(Vec<(Regex, f64)>);

impl ModuleNumbers {
    pub fn read(field: &str, value: Option<&Value>) -> Result<Self, String> {
        let entries = match value {
            None | Some(Value::Null) => return Ok(ModuleNumbers(Vec::new())),
            Some(Value::Object(entries)) => entries,
            Some(other) => return Err(format!("{field} is {other}, not numbers by module")),
        };
        let entry = |(key, value): (&String, &Value)| match value.as_f64() {
            // PEFT fits an expression to the last parts of a name.
            Some(number) => Ok((expression(field, key, r"(?:.*\.)?")?, number)),
            None => Err(format!("{field} of {key:?} is {value}, not a number")),
        };
        entries.iter().map(entry).collect::<Result<_, _>>().map(ModuleNumbers)
    }

    pub fn numbers(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|(_, number)| *number)
    }

    pub fn of(&self, module: &str) -> Option<f64> {
        self.0.iter().find(|(regex, _)| regex.is_match(module)).map(|(_, number)| *number)
    }
}

/// Of one expression; names of all modules of a model fit into a part of it.
const EXPRESSION_BYTES: usize = 64 << 10;

/// For whole names that begin with `front`. A file may have thousands of them, so each is small:
/// names are ASCII, and short enough to be matched without tables.
fn expression(field: &str, text: &str, front: &str) -> Result<Regex, String> {
    let ascii = syntax::Config::new().unicode(false).utf8(false);
    let small = meta::Config::new()
        .nfa_size_limit(Some(EXPRESSION_BYTES))
        .utf8_empty(false)
        .hybrid(false)
        .onepass(false);
    Regex::builder()
        .syntax(ascii)
        .configure(small)
        .build(&format!(r"\A{front}(?:{text})\z"))
        .map_err(|_| format!("{field} has {text:?}, which is no expression that can be read here"))
}

fn ends_with(module: &str, name: &str) -> bool {
    module.strip_suffix(name).is_some_and(|front| front.is_empty() || front.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(value: Value, want: [bool; 3]) {
        let modules = ["model.layers.1.self_attn.q_proj", "model.layers.11.mlp.up_proj", "lm_head"];
        let choice = ModuleChoice::read("target_modules", Some(&value)).unwrap().unwrap();
        assert_eq!(
            modules.map(|module| choice.means(module, module != "lm_head")),
            want,
            "{value}"
        );
    }

    #[test]
    fn names_are_whole_or_the_last_parts() {
        check(json!(["q_proj"]), [true, false, false]);
        check(json!(["self_attn.q_proj", "lm_head"]), [true, false, true]);
        check(json!(["model.layers.11.mlp.up_proj"]), [false, true, false]);
        check(json!(["proj", "layers", "1.mlp.up_proj"]), [false; 3]);
    }

    #[test]
    fn expressions_are_of_whole_names() {
        check(json!(r".*\.(q|v)_proj"), [true, false, false]);
        check(json!(r"model\.layers\.\d+\..*"), [true, true, false]);
        check(json!("q_proj"), [false; 3]);
        check(json!("all-linear"), [true, true, false]);
    }

    #[test]
    fn the_first_expression_that_fits_gives_the_number() {
        let patterns = json!({"layers.1.*q_proj": 2, "q_proj|up_proj": 3});
        let numbers = ModuleNumbers::read("rank_pattern", Some(&patterns)).unwrap();
        assert_eq!(numbers.of("model.layers.1.self_attn.q_proj"), Some(2.0));
        assert_eq!(numbers.of("model.layers.2.self_attn.q_proj"), Some(3.0));
        assert_eq!(numbers.of("model.layers.2.self_attn.k_proj"), None);
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for value in [json!(1), json!(["q_proj", 2]), json!("(?=ahead)"), json!("(")] {
            let refused = ModuleChoice::read("target_modules", Some(&value));
            assert!(refused.unwrap_err().starts_with("target_modules"), "{value}");
        }
        for value in [json!([]), json!({"q_proj": "8"}), json!({"(": 8})] {
            assert!(ModuleNumbers::read("rank_pattern", Some(&value)).is_err(), "{value}");
        }
    }
}
