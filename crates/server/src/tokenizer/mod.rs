//! The tokenizer's routes, as vLLM has them: `/tokenize`, `/detokenize` and `/tokenizer_info`.

mod token_reply;
pub mod tokenize;
pub mod tokenizer_info;
