//! LongBench V2 from its own file: questions about long texts, each with four choices.
//!
//! The file is a list of objects with `context`, `question`, `choice_A` to `choice_D` and `answer`.
//! Texts become tokens when they are asked for; the file stays mapped.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::value::RawValue;
use terrace_device::HostMap;

use super::case::Case;
use super::case_source::CaseSource;
use super::case_text::CaseText;
use super::data_error::DataError;
use super::text_encoder::TextEncoder;

pub struct LongBench {
    path: PathBuf,
    map: HostMap,
    /// Where each case lies in the file.
    ranges: Vec<Range<usize>>,
    encoder: TextEncoder,
    answers: AnswerForm,
    classes: Vec<String>,
}

/// What is learnt of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerForm {
    /// Which of four classes the answer is.
    Class,
    /// The letter as the model's next token.
    Letter,
}

#[derive(Deserialize)]
struct Question {
    context: String,
    question: String,
    #[serde(rename = "choice_A")]
    a: String,
    #[serde(rename = "choice_B")]
    b: String,
    #[serde(rename = "choice_C")]
    c: String,
    #[serde(rename = "choice_D")]
    d: String,
    answer: String,
}

const LETTERS: [&str; 4] = ["A", "B", "C", "D"];

impl LongBench {
    pub fn open(path: &Path, encoder: TextEncoder, answers: AnswerForm) -> Result<Self, DataError> {
        let wrong = |problem: String| DataError::File { path: path.into(), problem };
        let map = HostMap::open(path).map_err(|error| wrong(error.to_string()))?;
        let text = std::str::from_utf8(map.bytes())
            .map_err(|error| wrong(format!("it is not UTF-8: {error}")))?;
        let cases: Vec<&RawValue> = serde_json::from_str(text)
            .map_err(|error| wrong(format!("it is no list of LongBench V2's cases: {error}")))?;
        let range = |case: &&RawValue| {
            let start = case.get().as_ptr().addr() - text.as_ptr().addr();
            start..start + case.get().len()
        };
        let ranges: Vec<Range<usize>> = cases.iter().map(range).collect();
        if ranges.is_empty() {
            return Err(wrong("it has no cases".to_owned()));
        }
        let classes = LETTERS.map(str::to_owned).to_vec();
        let path = path.into();
        let source = LongBench { path, map, ranges, encoder, answers, classes };
        for number in 0..source.ranges.len() {
            source.question(number)?;
        }
        Ok(source)
    }

    fn question(&self, number: usize) -> Result<Question, DataError> {
        let bytes = &self.map.bytes()[self.ranges[number].clone()];
        let question: Question =
            serde_json::from_slice(bytes).map_err(|error| self.wrong(number, error.to_string()))?;
        match LETTERS.contains(&question.answer.as_str()) {
            true => Ok(question),
            false => {
                let problem = format!("its answer is {:?}, not A, B, C or D", question.answer);
                Err(self.wrong(number, problem))
            }
        }
    }

    fn wrong(&self, number: usize, problem: String) -> DataError {
        DataError::Case { path: self.path.clone(), case: number + 1, problem }
    }
}

impl CaseSource for LongBench {
    fn len(&self) -> usize {
        self.ranges.len()
    }

    fn case(&self, number: usize) -> Result<Case, DataError> {
        let question = self.question(number)?;
        let prompt = question.prompt();
        let text = match self.answers {
            AnswerForm::Class => CaseText::Labelled { text: prompt, label: question.answer },
            AnswerForm::Letter => {
                CaseText::Completion { prompt, completion: format!(" {}", question.answer) }
            }
        };
        let encoded = self.encoder.encode(&text, &self.classes);
        encoded.map_err(|error| self.wrong(number, error.to_string()))
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn fingerprint(&self) -> Option<String> {
        let form = self.encoder.fingerprint(self.map.bytes());
        Some(format!("{form}-{:?}", self.answers))
    }
}

impl Question {
    /// The text comes first: what is asked about it is then always in the cache.
    fn prompt(&self) -> String {
        let Question { context, question, a, b, c, d, .. } = self;
        format!(
            "A text, and a question about it with four choices, of which one is right.\n\n\
             {context}\n\nQuestion: {question}\nA. {a}\nB. {b}\nC. {c}\nD. {d}\n\
             The right choice is"
        )
    }
}
