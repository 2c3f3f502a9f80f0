//! Prompts with a `suffix`: the model writes what stands between, if it was trained to.
//!
//! Such a model has three tokens that mark the text before, the text after, and where to write.

use terrace_engine::text::Prompt;

use crate::api_error::{ApiError, ApiResult};
use crate::language::ServedModel;

/// What marks the text before, the text after, and the output.
type Marks = [&'static str; 3];

/// StarCoder, Qwen coder, DeepSeek coder, Code Llama, Granite.
const KNOWN: [Marks; 5] = [
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>"],
    ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"],
    ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
    ["<PRE>", "<SUF>", "<MID>"],
    ["<fim-prefix>", "<fim-suffix>", "<fim-middle>"],
];

/// Whether the model was trained to.
pub fn is_known_to(model: &ServedModel) -> bool {
    marks_of(model).is_some()
}

pub fn prompts(model: &ServedModel, prompts: Vec<Prompt>, suffix: &str) -> ApiResult<Vec<Prompt>> {
    let Some([before, after, middle]) = marks_of(model) else {
        let message = format!(
            "suffix is not supported: the model {:?} has no tokens that mark a middle to fill in",
            model.name()
        );
        return Err(ApiError::invalid("suffix", message));
    };
    let filled = prompts.into_iter().map(|prompt| match prompt {
        Prompt::Text(text) | Prompt::Rendered(text) => {
            Ok(Prompt::Text(format!("{before}{text}{after}{suffix}{middle}")))
        }
        Prompt::Tokens(_) => {
            let message = "suffix needs prompts that are texts, not token ids";
            Err(ApiError::invalid("suffix", message))
        }
    });
    filled.collect()
}

fn marks_of(model: &ServedModel) -> Option<Marks> {
    let has_marks = |marks: &Marks| marks.iter().all(|mark| model.token_of(mark).is_some());
    KNOWN.into_iter().find(has_marks)
}
