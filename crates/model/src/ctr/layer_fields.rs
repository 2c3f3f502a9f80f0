//! The options of a layer, as the network's JSON has them.
//!
//! Errors say which option it is and what it is; the layer they belong to is added by who reads
//! it. An option that is null counts as absent.

use serde_json::{Map, Value};

#[derive(Clone)]
pub struct LayerFields<'a> {
    object: &'a Map<String, Value>,
    /// The options that it stands in, with a dot behind.
    path: String,
}

/// Whole numbers beyond it are not exact as JSON's.
const MAX_WHOLE: f64 = (1u64 << 53) as f64;

impl<'a> LayerFields<'a> {
    pub fn new(object: &'a Map<String, Value>) -> Self {
        LayerFields { object, path: String::new() }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    pub fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The options that stand in an option.
    pub fn object(&self, key: &str) -> Result<LayerFields<'a>, String> {
        let object = self.wanted(key, "an object", Value::as_object)?;
        Ok(LayerFields { object, path: format!("{}{key}.", self.path) })
    }

    pub fn text(&self, key: &str) -> Result<&'a str, String> {
        self.wanted(key, "a text", Value::as_str)
    }

    pub fn flag(&self, key: &str) -> Result<bool, String> {
        self.wanted(key, "true or false", Value::as_bool)
    }

    pub fn number(&self, key: &str) -> Result<f32, String> {
        let number = |value: &Value| value.as_f64().map(|number| number as f32);
        let finite = |value| number(value).filter(|number| number.is_finite());
        self.wanted(key, "a number", finite)
    }

    /// A whole number that is not negative.
    pub fn count(&self, key: &str) -> Result<usize, String> {
        self.wanted(key, "a whole number that is not negative", count)
    }

    pub fn counts(&self, key: &str) -> Result<Vec<usize>, String> {
        let wanted = "a list of whole numbers that are not negative";
        self.wanted(key, wanted, |value| value.as_array()?.iter().map(count).collect())
    }

    pub fn integers(&self, key: &str) -> Result<Vec<i64>, String> {
        let wanted = "a list of whole numbers";
        self.wanted(key, wanted, |value| value.as_array()?.iter().map(Value::as_i64).collect())
    }

    pub fn flags(&self, key: &str) -> Result<Vec<bool>, String> {
        let wanted = "a list of true and false";
        self.wanted(key, wanted, |value| value.as_array()?.iter().map(Value::as_bool).collect())
    }

    pub fn texts(&self, key: &str) -> Result<Vec<&'a str>, String> {
        let wanted = "a list of texts";
        self.wanted(key, wanted, |value| value.as_array()?.iter().map(Value::as_str).collect())
    }

    /// Pairs of whole numbers.
    pub fn pairs(&self, key: &str) -> Result<Vec<[usize; 2]>, String> {
        let pair = |value: &Value| match value.as_array()?.as_slice() {
            [first, second] => Some([count(first)?, count(second)?]),
            _ => None,
        };
        let wanted = "a list of pairs of whole numbers that are not negative";
        self.wanted(key, wanted, |value| value.as_array()?.iter().map(pair).collect())
    }

    /// A name, or a list of names.
    pub fn names(&self, key: &str) -> Result<Vec<&'a str>, String> {
        self.wanted(key, "a name or a list of names", |value| match value {
            Value::String(name) => Some(vec![name.as_str()]),
            Value::Array(names) => names.iter().map(Value::as_str).collect(),
            _ => None,
        })
    }

    /// A whole number, or a list of them.
    pub fn one_or_more_counts(&self, key: &str) -> Result<Vec<usize>, String> {
        let wanted = "a whole number that is not negative, or a list of them";
        self.wanted(key, wanted, |value| match value {
            Value::Array(counts) => counts.iter().map(self::count).collect(),
            value => count(value).map(|count| vec![count]),
        })
    }

    fn wanted<T>(
        &self,
        key: &str,
        wanted: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, String> {
        let value = self.get(key).ok_or_else(|| format!("it has no {}{key}", self.path))?;
        read(value).ok_or_else(|| {
            format!("{}{key} is {}, but must be {wanted}", self.path, shortened(value))
        })
    }
}

/// Python writes whole numbers as floats where it computed them.
fn count(value: &Value) -> Option<usize> {
    let whole = value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        (number.fract() == 0.0 && (0.0..=MAX_WHOLE).contains(&number)).then_some(number as u64)
    });
    whole.and_then(|whole| usize::try_from(whole).ok())
}

/// A value as JSON, of which the beginning is enough to know it by.
fn shortened(value: &Value) -> String {
    const MOST: usize = 60;
    let text = match value {
        // What it holds may be long.
        Value::Array(list) if list.len() > MOST => format!("a list of {}", list.len()),
        Value::Object(object) if object.len() > MOST => "an object".into(),
        Value::String(text) if text.len() > MOST => "a long text".into(),
        value => value.to_string(),
    };
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}
