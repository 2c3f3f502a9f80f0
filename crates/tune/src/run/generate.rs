//! How many answers are right that a model generates while it is tuned.

use std::path::Path;

use crate::data::{Case, CaseTargets};
use crate::error::Error;

/// Generates with a model that was just saved. The crate that has an engine implements it.
pub trait Generate {
    /// The text that comes after each prompt. `saved`: the adapter, or the whole model.
    fn generate(&mut self, saved: &Path, prompts: &[Vec<u32>]) -> Result<Vec<String>, Error>;

    fn text(&self, tokens: &[u32]) -> Result<String, Error>;
}

/// What a model is asked, and what its answer must contain.
pub(super) struct Question {
    pub prompt: Vec<u32>,
    pub answer: String,
}

impl Question {
    /// The first of a case's targets is the answer to what comes before it.
    pub fn of(case: &Case, generate: &dyn Generate) -> Result<Self, Error> {
        let refuse = |why| Error::Unsupported { what: "the sample metric".to_owned(), why };
        let CaseTargets::Tokens(ranges) = &case.targets else {
            return Err(refuse("cases that belong to classes have no answers to be generated"));
        };
        match &ranges[0] {
            range if range.start <= 1 => {
                Err(refuse("all of a case's text is to be predicted: there is no prompt"))
            }
            range => {
                let answer = generate.text(&case.tokens[range.clone()])?;
                Ok(Question { prompt: case.tokens[..range.start].to_vec(), answer })
            }
        }
    }

    /// Whether an output contains the answer, but for case, punctuation and articles.
    pub fn is_answered_by(&self, output: &str) -> bool {
        let words = |text: &str| format!(" {} ", normalised(text).join(" "));
        words(output).contains(&words(&self.answer))
    }
}

/// As question answering is scored since SQuAD.
fn normalised(text: &str) -> Vec<String> {
    let plain: String = text.to_lowercase().chars().filter(|c| !c.is_ascii_punctuation()).collect();
    let words = plain.split_whitespace().filter(|word| !["a", "an", "the"].contains(word));
    words.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Letters;

    impl Generate for Letters {
        fn generate(&mut self, _: &Path, _: &[Vec<u32>]) -> Result<Vec<String>, Error> {
            unreachable!("nothing is generated")
        }

        fn text(&self, tokens: &[u32]) -> Result<String, Error> {
            let letter = |token: &u32| char::from_u32(96 + token).expect("a letter");
            Ok(tokens.iter().map(letter).collect())
        }
    }

    #[test]
    fn answers_are_found_in_whole_words() {
        let question = |answer: &str| Question { prompt: vec![1], answer: answer.to_owned() };
        for (answer, output, is_found) in [
            ("The Eiffel Tower", "it is Eiffel tower.", true),
            ("42", "4242", false),
            ("42", "It was: 42!", true),
            ("red fox", "a red\nfox", true),
            ("red fox", "red foxes", false),
        ] {
            assert_eq!(question(answer).is_answered_by(output), is_found, "{answer} in {output}");
        }
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "a case with one run of targets")]
    fn the_first_target_answers_what_is_before_it() {
        let case = Case::new(vec![5, 6, 1, 2, 7], CaseTargets::Tokens(vec![2..4])).unwrap();
        let question = Question::of(&case, &Letters).unwrap();
        assert_eq!((question.prompt, question.answer.as_str()), (vec![5, 6], "ab"));
        let text = Case::of_text(vec![1, 2, 3]).unwrap();
        assert!(Question::of(&text, &Letters).is_err(), "it has no prompt");
        let class = Case::new(vec![1, 2], CaseTargets::Class(0)).unwrap();
        assert!(Question::of(&class, &Letters).is_err(), "it has no answer");
    }
}
