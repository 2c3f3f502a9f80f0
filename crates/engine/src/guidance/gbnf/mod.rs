//! GBNF, the notation of llama.cpp's grammars, translated to Lark.
//!
//! GBNF knows characters only, Lark has words. A rule that never leads back to itself becomes a
//! word, so that a grammar without recursion is followed exactly as it is written; between the
//! words of the others the longest match counts, as in Lark.

mod lark_writer;
mod parser;
mod syntax;

use parser::Parser;
use syntax::is_name_char;

/// Whether a grammar is written in GBNF: one of its lines defines a rule with `::=`.
pub fn is_gbnf(text: &str) -> bool {
    text.lines().any(|line| {
        let defined = line.split_once("::=").map(|(name, _)| name.trim());
        defined.is_some_and(|name| !name.is_empty() && name.chars().all(is_name_char))
    })
}

/// The same grammar in Lark, or what is wrong with it and where.
pub fn gbnf_to_lark(text: &str) -> Result<String, String> {
    lark_writer::write(&Parser::new(text).rules()?)
}

#[cfg(test)]
mod tests;
