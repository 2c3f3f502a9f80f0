//! How much work following a grammar may be, in what the parser counts.

/// Steps of the expressions for one token, some 20 ms. Ordinary schemas take up to 20,000, for a
/// `uri` with a pattern.
pub(super) const MAX_TOKEN_STEPS: u64 = 100_000;
/// Items of the rules for one token. Ordinary schemas take up to 9,000, for an object of a hundred
/// optional properties. Time grows with the square in ambiguous grammars: 50,000 take a second.
pub(super) const MAX_TOKEN_ITEMS: usize = 20_000;
/// Items at one place of the text.
pub(super) const MAX_ITEMS_IN_ROW: usize = 2_000;
/// A text of bounded length takes four for each of its characters.
pub(super) const MAX_LEXER_STATES: usize = 50_000;
/// Of one request's guide. A text of bounded length takes 4 to 7 kB for each of its characters.
pub(super) const MAX_LEXER_BYTES: usize = 48 << 20;
/// Symbols of a grammar; the largest schema that passes the limit of bytes has fewer.
pub(super) const MAX_GRAMMAR_SIZE: usize = 100_000;

/// Steps that the outputs of a request may take together: these, and so many for each token.
/// Ordinary schemas take up to 3,000 for each, a JSON object without a schema 7.
pub(super) const BURST_STEPS: u64 = 1_000_000;
pub(super) const STEPS_PER_TOKEN: u64 = 5_000;
/// Items that an output may take: these, and so many for each token. Ordinary schemas take up to
/// 600 for each, a programming language's expressions 1,400.
pub(super) const BURST_ITEMS: usize = 100_000;
pub(super) const ITEMS_PER_TOKEN: usize = 2_000;
