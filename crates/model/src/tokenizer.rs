//! Text as token ids.
pub struct Tokenizer {}
