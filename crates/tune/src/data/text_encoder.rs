//! Texts, prompts with completions and conversations as token sequences.
//!
//! A part that the model is to write is encoded apart from what comes before it, as it is when the
//! model serves: a prompt's tokens are there first, and then the model's own.

use std::sync::Arc;

use terrace_model::{AddSpecial, ChatTemplate, Message, RenderOptions, Tokenizer};
use twox_hash::XxHash3_128;

use super::case::{Case, CaseTargets};
use super::case_text::CaseText;
use super::data_error::DataError;

#[derive(Clone)]
pub struct TextEncoder {
    tokenizer: Arc<Tokenizer>,
    template: Option<Arc<ChatTemplate>>,
}

impl TextEncoder {
    /// Conversations need a template.
    pub fn new(tokenizer: Arc<Tokenizer>, template: Option<Arc<ChatTemplate>>) -> Self {
        TextEncoder { tokenizer, template }
    }

    /// Of data and tokenizer: tokens of cases depend on nothing else.
    pub fn fingerprint(&self, data: &[u8]) -> String {
        let mut hash = XxHash3_128::new();
        hash.write(data);
        hash.write(self.tokenizer.kind().as_bytes());
        for id in 0..self.tokenizer.vocab_size() as u32 {
            hash.write(&self.tokenizer.token_bytes(id).unwrap_or_default());
            hash.write(&[0xff]);
        }
        if let Some(template) = &self.template {
            hash.write(template.source().as_bytes());
        }
        format!("{:032x}", hash.finish_128())
    }

    /// Classes have names, and numbers by their place among them.
    pub fn encode(&self, text: &CaseText, classes: &[String]) -> Result<Case, EncodeError> {
        match text {
            CaseText::Text(text) => Ok(Case::of_text(self.tokens(text)?)?),
            CaseText::Completion { prompt, completion } => {
                let mut tokens = self.tokens(prompt)?;
                let start = tokens.len();
                self.push(&mut tokens, completion)?;
                tokens.extend(self.tokenizer.eos().first());
                let completion = start..tokens.len();
                Ok(Case::new(tokens, CaseTargets::Tokens(vec![completion]))?)
            }
            CaseText::Messages(messages) => self.conversation(messages),
            CaseText::Labelled { text, label } => {
                let class = classes.iter().position(|class| class == label);
                let class = class.ok_or_else(|| EncodeError::Class {
                    label: label.clone(),
                    classes: classes.join(", "),
                })?;
                Ok(Case::new(self.tokens(text)?, CaseTargets::Class(class))?)
            }
        }
    }

    fn tokens(&self, text: &str) -> Result<Vec<u32>, DataError> {
        Ok(self.tokenizer.encode(text, AddSpecial::Yes)?)
    }

    fn push(&self, tokens: &mut Vec<u32>, text: &str) -> Result<(), DataError> {
        tokens.extend(self.tokenizer.encode(text, AddSpecial::No)?);
        Ok(())
    }

    /// Targets are what the assistant says, and what ends its turn.
    fn conversation(&self, messages: &[Message]) -> Result<Case, EncodeError> {
        let template = self.template.as_ref().ok_or(EncodeError::NoTemplate)?;
        let (mut tokens, mut ranges, mut done) = (Vec::new(), Vec::new(), 0);
        let whole = render(template, messages, false)?;
        for (at, _) in messages.iter().enumerate().filter(|(_, it)| it.role == "assistant") {
            let before = render(template, &messages[..at], true)?;
            let after = render(template, &messages[..=at], false)?;
            let is_prefix = whole.starts_with(&after) && after.starts_with(&before);
            if !is_prefix || before.len() < done {
                return Err(EncodeError::TemplateRewrites { message: at + 1 });
            }
            self.push(&mut tokens, &whole[done..before.len()])?;
            let start = tokens.len();
            self.push(&mut tokens, &whole[before.len()..after.len()])?;
            if start < tokens.len() {
                ranges.push(start..tokens.len());
            }
            done = after.len();
        }
        self.push(&mut tokens, &whole[done..])?;
        Ok(Case::new(tokens, CaseTargets::Tokens(ranges))?)
    }
}

/// Why a text is no example.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Model(#[from] terrace_model::Error),
    #[error("the label {label:?} is none of the classes {classes}")]
    Class { label: String, classes: String },
    #[error(
        "messages need a chat template, which the model has not got; give \"prompt\" and \
         \"completion\""
    )]
    NoTemplate,
    #[error(
        "the chat template writes message {message} otherwise when others follow, so that nobody \
         knows which tokens are the assistant's; give \"prompt\" and \"completion\""
    )]
    TemplateRewrites { message: usize },
}

fn render(
    template: &ChatTemplate,
    messages: &[Message],
    add_generation_prompt: bool,
) -> Result<String, EncodeError> {
    let options = RenderOptions { add_generation_prompt, ..RenderOptions::next_message() };
    Ok(template.render(messages, &options)?)
}
