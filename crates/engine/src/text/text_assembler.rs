//! One output's tokens as text, as they come.
//!
//! It detokenises, holds back what may become a stop string, and says why the output ended. It
//! knows no engine: who drives it must cancel a choice that a stop string has ended.

use std::sync::Arc;

use terrace_model::TokenStream;

use crate::error::Error;
use crate::generate::token_event::FinishReason;
use crate::text::stop_strings::{Shown, StopStrings};
use crate::text::{TextEvent, TextFinish, TokenInfo};
use terrace_cache::TokenId;

pub struct TextAssembler {
    choice: usize,
    stream: TokenStream,
    stop_ids: Arc<[TokenId]>,
    held: StopStrings,
    is_finished: bool,
}

pub struct AssemblerConfig {
    pub choice: usize,
    /// Where the output's ids become text; it may have seen the prompt.
    pub stream: TokenStream,
    /// Texts that end the output, none of them empty; shared by all outputs of a request.
    pub stops: Arc<[String]>,
    /// The stop text that ends the output is part of its text.
    pub include_stop_text: bool,
    /// The tokens that end the output in the engine; they give no text.
    pub stop_ids: Arc<[TokenId]>,
}

impl TextAssembler {
    pub fn new(config: AssemblerConfig) -> Self {
        let AssemblerConfig { choice, stream, stops, include_stop_text, stop_ids } = config;
        let held = StopStrings::new(stops, include_stop_text);
        Self { choice, stream, stop_ids, held, is_finished: false }
    }

    /// Adds a token. `None` when there is nothing to show yet, or a stop string has ended the
    /// output before. The event has a `finish` only if a stop string ends it now.
    pub fn push(&mut self, token: TokenInfo) -> Result<Option<TextEvent>, Error> {
        if self.is_finished || self.stop_ids.contains(&token.id) {
            return Ok(None);
        }
        let piece = self.stream.push(token.id)?;
        let shown = self.held.push(token, &piece);
        Ok(self.event(shown, None))
    }

    /// Shows what is held and ends the output; `None` if a stop string has ended it before.
    pub fn finish(&mut self, reason: FinishReason) -> Option<TextEvent> {
        if self.is_finished {
            return None;
        }
        let rest = self.stream.finish();
        let shown = self.held.finish(&rest);
        let finish = match reason {
            FinishReason::Stop(id) => TextFinish::StopToken(id),
            FinishReason::Length => TextFinish::Length,
            FinishReason::Cancelled => TextFinish::Cancelled,
            FinishReason::Failed(failure) => TextFinish::Failed(failure),
        };
        self.event(shown, Some(finish))
    }

    /// Whether the last event was given.
    pub fn is_finished(&self) -> bool {
        self.is_finished
    }

    fn event(&mut self, shown: Shown, finish: Option<TextFinish>) -> Option<TextEvent> {
        let Shown { text, tokens, stop } = shown;
        let finish = stop.map(TextFinish::StopText).or(finish);
        self.is_finished = finish.is_some();
        let is_empty = text.is_empty() && tokens.is_empty() && finish.is_none();
        (!is_empty).then_some(TextEvent { choice: self.choice, text, tokens, finish })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use terrace_model::{SpecialTokens, Tokenizer};

    use super::{AssemblerConfig, TextAssembler};
    use crate::generate::token_event::FinishReason;
    use crate::text::{TextEvent, TextFinish, TokenInfo};

    /// Byte-level; 0 and 1 are the halves of "é", 4 is special.
    fn tokenizer() -> Tokenizer {
        let byte_level: Value = json!({
            "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
            "use_regex": true,
        });
        let end = json!({
            "id": 4, "content": "<|end|>", "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true,
        });
        let file = json!({
            "version": "1.0", "added_tokens": [end], "pre_tokenizer": byte_level,
            "decoder": byte_level,
            "model": { "type": "BPE", "vocab": { "Ã": 0, "©": 1, "a": 2, "b": 3 }, "merges": [] },
        });
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, file.to_string()).expect("the folder is writable");
        Tokenizer::from_file(&path).expect("the file is a tokenizer")
    }

    fn assembler(stops: &[&str]) -> TextAssembler {
        TextAssembler::new(AssemblerConfig {
            choice: 1,
            stream: tokenizer().stream(SpecialTokens::Skip),
            stops: stops.iter().map(|stop| stop.to_string()).collect(),
            include_stop_text: false,
            stop_ids: [3, 4].into(),
        })
    }

    fn event(text: &str, ids: &[u32], finish: Option<TextFinish>) -> Option<TextEvent> {
        let tokens = ids.iter().map(|&id| TokenInfo { id, logprobs: None }).collect();
        Some(TextEvent { choice: 1, text: text.into(), tokens, finish })
    }

    fn push(assembler: &mut TextAssembler, id: u32) -> Option<TextEvent> {
        assembler.push(TokenInfo { id, logprobs: None }).expect("the id is known")
    }

    #[test]
    fn a_character_is_shown_whole_with_its_tokens() {
        let mut assembler = assembler(&[]);
        assert_eq!(push(&mut assembler, 2), event("a", &[2], None));
        assert_eq!(push(&mut assembler, 0), None);
        assert_eq!(push(&mut assembler, 1), event("é", &[0, 1], None));
        assert_eq!(push(&mut assembler, 0), None);
        let length = Some(TextFinish::Length);
        assert_eq!(assembler.finish(FinishReason::Length), event("\u{fffd}", &[0], length));
    }

    #[test]
    fn a_stop_token_gives_no_text() {
        let mut assembler = assembler(&["ab"]);
        assert_eq!(push(&mut assembler, 2), None);
        assert_eq!(push(&mut assembler, 3), None);
        let stop = Some(TextFinish::StopToken(3));
        assert_eq!(assembler.finish(FinishReason::Stop(3)), event("a", &[2], stop));
    }

    #[test]
    fn nothing_comes_after_a_stop_text() {
        let mut assembler = assembler(&["éa"]);
        assert_eq!(push(&mut assembler, 2), event("a", &[2], None));
        assert_eq!(push(&mut assembler, 0), None);
        assert_eq!(push(&mut assembler, 1), None);
        let stop = Some(TextFinish::StopText("éa".into()));
        assert_eq!(push(&mut assembler, 2), event("", &[], stop));
        assert!(assembler.is_finished());
        assert_eq!(push(&mut assembler, 2), None);
        assert_eq!(assembler.finish(FinishReason::Cancelled), None);
    }

    #[test]
    fn an_unknown_id_is_an_error() {
        let unknown = TokenInfo { id: 9, logprobs: None };
        assert!(assembler(&[]).push(unknown).is_err());
    }
}
