//! One question as a prompt, for models without a chat template of their own.
//!
//! Only a single turn, and only text: conversations are `terrace_model::ChatTemplate`'s.

use crate::error::Error;

const INPUT: &str = "{input_text}";

/// The formats the models were tuned on, by name.
const NAMED: [(&str, &str); 3] = [
    (
        "llama",
        "[INST] <<SYS>>\nYou are a helpful and honest assistant. If you do not know the answer, \
         say so.\n<</SYS>>\n\n{input_text} [/INST]",
    ),
    (
        "vicuna",
        "A chat between a curious user and an artificial intelligence assistant. The assistant \
         gives helpful, detailed, and polite answers to the user's questions. \
         USER: {input_text} ASSISTANT:",
    ),
    ("baichuan", "<reserved_106>{input_text}<reserved_107>"),
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptTemplate {
    format: String,
}

impl PromptTemplate {
    /// `llama`, `vicuna`, `baichuan`, or a text with `{input_text}` where the question goes.
    pub fn parse(name_or_format: &str) -> Result<Self, Error> {
        let named = NAMED.iter().find(|(name, _)| *name == name_or_format);
        let format = named.map_or(name_or_format, |(_, format)| format);
        if !format.contains(INPUT) {
            return Err(Error::BadOption {
                option: "prompt_template",
                value: format!("{format:?}"),
                rule: format!(
                    "it must be llama, vicuna or baichuan, or a text that contains {INPUT}"
                ),
            });
        }
        Ok(Self { format: format.into() })
    }

    pub fn apply(&self, input: &str) -> String {
        self.format.replace(INPUT, input)
    }
}

#[cfg(test)]
mod tests {
    use super::PromptTemplate;

    #[track_caller]
    fn check(template: &str, input: &str, starts: &str, ends: &str) {
        let prompt = PromptTemplate::parse(template).expect("the template is valid").apply(input);
        assert!(prompt.starts_with(starts) && prompt.ends_with(ends), "{prompt:?}");
    }

    #[test]
    fn names_stand_for_the_models_formats() {
        check("llama", "Why?", "[INST] <<SYS>>\n", "\n<</SYS>>\n\nWhy? [/INST]");
        check("vicuna", "Why?", "A chat between a curious user", " USER: Why? ASSISTANT:");
        check("baichuan", "Why?", "<reserved_106>Why?", "<reserved_107>");
    }

    #[test]
    fn a_custom_text_names_the_place_of_the_question() {
        check("Q: {input_text}\nA:", "Why?", "Q: Why?\n", "A:");
        check("{input_text}{input_text}", "x", "xx", "x");
        check("<{input_text}>", "{input_text}", "<{input_text}>", ">");
    }

    #[test]
    fn a_text_without_a_place_is_refused() {
        let error = PromptTemplate::parse("qwen").expect_err("the name is unknown").to_string();
        assert_eq!(
            error,
            "prompt_template is \"qwen\": it must be llama, vicuna or baichuan, or a text that \
             contains {input_text}"
        );
    }
}
