//! Examples in a file of JSON lines: texts, prompts and completions, conversations, or classes.
//!
//! All lines are looked at when the file is opened, so that a wrong one is named before a model
//! learns. They become tokens when they are asked for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::case::Case;
use super::case_source::CaseSource;
use super::case_text::CaseText;
use super::data_error::DataError;
use super::line_index::LineIndex;
use super::text_encoder::TextEncoder;

pub struct JsonLines {
    path: PathBuf,
    lines: LineIndex,
    encoder: TextEncoder,
    classes: Vec<String>,
}

impl JsonLines {
    pub fn open(path: &Path, encoder: TextEncoder) -> Result<Self, DataError> {
        let lines = LineIndex::open(path)?;
        let mut source = JsonLines { path: path.into(), lines, encoder, classes: Vec::new() };
        let mut labels = BTreeSet::new();
        let mut unlabelled = None;
        for at in 0..source.lines.len() {
            match source.text(at)?.label() {
                Some(label) => drop(labels.insert(label.to_owned())),
                None => unlabelled = unlabelled.or(Some(at)),
            }
        }
        if let Some(at) = unlabelled.filter(|_| !labels.is_empty()) {
            let problem = "it has no \"label\", and other lines have one".to_owned();
            return Err(source.wrong(at, problem));
        }
        if source.lines.len() == 0 {
            let problem = "it has no lines".to_owned();
            return Err(DataError::File { path: source.path, problem });
        }
        source.classes = labels.into_iter().collect();
        // Classes that are numbers count as such: 2 comes before 10.
        source.classes.sort_by_key(|label| (label.parse::<i64>().ok(), label.clone()));
        Ok(source)
    }

    fn text(&self, at: usize) -> Result<CaseText, DataError> {
        let value: Value = serde_json::from_slice(self.lines.line(at))
            .map_err(|error| self.wrong(at, format!("it is not JSON: {error}")))?;
        match &value {
            Value::Object(fields) => {
                CaseText::of(fields).map_err(|problem| self.wrong(at, problem))
            }
            _ => Err(self.wrong(at, "it is not an object".to_owned())),
        }
    }

    fn wrong(&self, at: usize, problem: String) -> DataError {
        DataError::Line { path: self.path.clone(), line: self.lines.number(at), problem }
    }
}

impl CaseSource for JsonLines {
    fn len(&self) -> usize {
        self.lines.len()
    }

    fn case(&self, number: usize) -> Result<Case, DataError> {
        let encoded = self.encoder.encode(&self.text(number)?, &self.classes);
        encoded.map_err(|error| self.wrong(number, error.to_string()))
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn fingerprint(&self) -> Option<String> {
        Some(self.encoder.fingerprint(self.lines.bytes()))
    }
}
