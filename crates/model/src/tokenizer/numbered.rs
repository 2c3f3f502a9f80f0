//! A vocabulary without a language, for measurements: each token is written as its number.

use std::sync::Arc;

use tokenizers::models::wordlevel::WordLevel;
use tokenizers::pre_tokenizers::whitespace::WhitespaceSplit;

use super::segment_encoder::SegmentEncoder;
use super::token_bytes::{FirstSpace, SPACE_MARK, Spelling, TokenBytes};
use super::{SpecialIds, Tokenizer};

impl Tokenizer {
    /// Tokens `0..vocab` as numbers with a space between them; what is no such number reads as 0.
    pub fn numbered(vocab: usize) -> Tokenizer {
        let ids = 0..u32::try_from(vocab).expect("token ids are 32 bits wide");
        let words = WordLevel::builder()
            .vocab(ids.clone().map(|id| (id.to_string(), id)).collect())
            .unk_token("0".into())
            .build()
            .expect("the words are given, not read");
        let mut model = tokenizers::Tokenizer::new(words);
        model.with_pre_tokenizer(Some(WhitespaceSplit));
        let mut token_bytes = TokenBytes::new(FirstSpace::Drop);
        for id in ids {
            token_bytes.insert(id, &format!("{SPACE_MARK}{id}"), Spelling::SpaceMark);
        }
        Tokenizer {
            segments: SegmentEncoder::new(&model),
            model,
            token_bytes: Arc::new(token_bytes),
            special: SpecialIds::default(),
            prefix: Vec::new(),
            suffix: Vec::new(),
            chat_template: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::{AddSpecial, SpecialTokens};

    #[test]
    fn every_token_is_a_piece_of_text() {
        let tokenizer = Tokenizer::numbered(40);
        assert_eq!(tokenizer.vocab_size(), 40);
        assert_eq!(tokenizer.encode("7 0 39 40 x", AddSpecial::Yes).unwrap(), [7, 0, 39, 0, 0]);
        assert_eq!(tokenizer.decode(&[7, 0, 39], SpecialTokens::Skip).unwrap(), "7 0 39");
        let mut stream = tokenizer.stream(SpecialTokens::Skip);
        let texts: Vec<_> = (0..40).map(|id| stream.push(id).unwrap()).collect();
        assert!(texts.iter().all(|text| !text.is_empty()), "{texts:?}");
        assert!(tokenizer.decode(&[40], SpecialTokens::Skip).is_err());
    }
}
