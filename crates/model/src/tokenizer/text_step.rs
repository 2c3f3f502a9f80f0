//! What a tokenizer does to a text before it looks for words.

use serde::Deserialize;
use serde_json::Value;
use unicode_normalization_alignments::UnicodeNormalization;

/// One step; a text is at most three times as long after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextStep {
    /// Puts a text in front, unless there is nothing to put it in front of.
    Prepend(String),
    /// Puts a mark in front of what does not begin with it.
    PrependMark {
        mark: char,
        only_at_start: bool,
    },
    Replace {
        pattern: String,
        content: String,
    },
    /// Unicode's normal form C, as the `tokenizers` crate's own tables have it.
    Nfc,
}

/// Of `tokenizer.json`, as far as it is taken step by step; others are the crate's to do.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum Normalizer {
    Sequence {
        normalizers: Vec<Normalizer>,
    },
    Prepend {
        prepend: String,
    },
    Replace {
        pattern: ReplacePattern,
        content: String,
    },
    #[serde(rename = "NFC")]
    Nfc,
}

#[derive(Deserialize)]
enum ReplacePattern {
    String(String),
}

impl TextStep {
    /// The steps of a normalizer, as `tokenizer.json` writes it; `None` if one is not known here.
    pub fn of_normalizer(normalizer: Value) -> Option<Vec<TextStep>> {
        let normalizer: Option<Normalizer> = serde_json::from_value(normalizer).ok()?;
        let mut steps = Vec::new();
        normalizer.is_none_or(|normalizer| normalizer.append_to(&mut steps)).then_some(steps)
    }

    /// Whether a text may have fewer bytes after the step.
    pub fn shrinks(&self) -> bool {
        match self {
            TextStep::Prepend(_) | TextStep::PrependMark { .. } => false,
            TextStep::Replace { pattern, content } => content.len() < pattern.len(),
            TextStep::Nfc => true,
        }
    }

    /// All steps in order. `is_start`: whether the text is the start of a prompt.
    pub fn apply_all(steps: &[TextStep], text: &str, is_start: bool) -> String {
        steps.iter().fold(text.to_owned(), |text, step| step.apply(text, is_start))
    }

    fn apply(&self, text: String, is_start: bool) -> String {
        match self {
            TextStep::Prepend(prefix) if !text.is_empty() => prefix.clone() + &text,
            TextStep::PrependMark { mark, only_at_start }
                if !text.starts_with(*mark) && (is_start || !only_at_start) =>
            {
                format!("{mark}{text}")
            }
            TextStep::Replace { pattern, content } => text.replace(pattern, content),
            TextStep::Nfc => text.nfc().map(|(character, _)| character).collect(),
            _ => text,
        }
    }
}

impl Normalizer {
    /// Whether all its steps are known.
    fn append_to(self, steps: &mut Vec<TextStep>) -> bool {
        match self {
            Normalizer::Sequence { normalizers } => {
                return normalizers.into_iter().all(|normalizer| normalizer.append_to(steps));
            }
            Normalizer::Prepend { prepend } => steps.push(TextStep::Prepend(prepend)),
            Normalizer::Replace { pattern: ReplacePattern::String(pattern), content } => {
                let is_bounded = !pattern.is_empty() && content.len() <= 3 * pattern.len();
                steps.push(TextStep::Replace { pattern, content });
                return is_bounded;
            }
            Normalizer::Nfc => steps.push(TextStep::Nfc),
        }
        true
    }
}
