//! Chats that hide a sentence with a number in a long text and ask for the number at the end.

use anyhow::{Context, Result, ensure};
use terrace_engine::TokenId;
use terrace_engine::text::LanguageModel;
use terrace_model::{AddSpecial, Message, RenderOptions, SpecialTokens};

use super::cache_case::Share;

pub struct NeedlePrompts<'a> {
    model: &'a LanguageModel,
    /// What needles are hidden in; any part of it.
    hay: &'a [TokenId],
    random_state: u64,
}

/// One question.
#[derive(Clone, Debug)]
pub struct NeedlePrompt {
    pub length: usize,
    /// Where the needle lies, from the hay's start to its end.
    pub depth: Share,
    /// The rendered chat.
    pub chat: String,
    /// What the output must contain.
    pub number: String,
}

/// What the chat has around the hay, roughly; lengths are of the whole prompt.
const FRAME_TOKENS: usize = 64;

impl<'a> NeedlePrompts<'a> {
    pub fn new(model: &'a LanguageModel, hay: &'a [TokenId], seed: u64) -> Self {
        NeedlePrompts { model, hay, random_state: seed }
    }

    /// `count` prompts of about `length` tokens for each depth.
    pub fn make(
        &mut self,
        length: usize,
        depths: &[Share],
        count: usize,
    ) -> Result<Vec<NeedlePrompt>> {
        let wanted = length.saturating_sub(FRAME_TOKENS);
        let have = self.hay.len();
        ensure!(
            0 < wanted && wanted <= have,
            "a needle cannot be hidden in {length} tokens: lengths are from {} to {}, which is \
             what --text has",
            FRAME_TOKENS + 1,
            have + FRAME_TOKENS
        );
        let mut prompts = Vec::new();
        for &depth in depths {
            for _ in 0..count {
                prompts.push(self.one(length, wanted, depth)?);
            }
        }
        Ok(prompts)
    }

    fn one(&mut self, length: usize, hay_tokens: usize, depth: Share) -> Result<NeedlePrompt> {
        let start = self.below(self.hay.len() - hay_tokens + 1);
        let number = (10_000 + self.below(90_000)).to_string();
        let hay = &self.hay[start..start + hay_tokens];
        let hay = self.model.tokenizer().decode(hay, SpecialTokens::Skip)?;
        let (before, behind) = hay.split_at(sentence_end(&hay, depth));
        let text = format!(
            "{before} The password of the safe is {number}.{behind}\n\nWhat is the password of the \
             safe? Answer with the number."
        );
        let template = self.model.chat_template().context("the model has no chat template")?;
        let options = RenderOptions::next_message();
        let chat = template.render(&[Message::text("user", &text)], &options)?;
        Ok(NeedlePrompt { length, depth, chat, number })
    }

    /// A number from `0..end`.
    fn below(&mut self, end: usize) -> usize {
        // Knuth's MMIX generator; its high bits are good enough to place a needle.
        let state = self.random_state;
        self.random_state =
            state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.random_state >> 33) % end as u64) as usize
    }
}

/// Tokens of a whole file, as a prompt of it would have.
pub fn tokens_of(model: &LanguageModel, text: &str) -> Result<Vec<TokenId>> {
    Ok(model.tokenizer().encode(text, AddSpecial::Yes)?)
}

/// The end of the first sentence behind `depth`, or of the text.
fn sentence_end(text: &str, depth: Share) -> usize {
    let mut from = depth.of(text.len());
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let end = text[from..].find(['.', '!', '?']).map(|end| from + end + 1);
    end.unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_needle_stands_between_sentences() {
        let text = "Größe. One two. Three four! Five";
        let check = |depth: f64, want: &str| {
            assert_eq!(&text[..sentence_end(text, Share(depth))], want, "{depth}");
        };
        check(0.01, "Größe.");
        // In the middle of a character.
        check(3.0 / text.len() as f64, "Größe.");
        check(0.3, "Größe. One two.");
        check(0.6, "Größe. One two. Three four!");
        check(0.99, text);
    }
}
