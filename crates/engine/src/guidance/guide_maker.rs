//! Makes guides for one model: holds what depends on its vocabulary, not on a grammar.

use std::thread;

use llguidance::api::ParserLimits;
use llguidance::{ParserFactory, TokenParser};
use terrace_model::Tokenizer;

use super::token_texts::token_tree;
use super::{Grammar, Guide};
use crate::error::Error;
use crate::request::TokenId;

/// Each takes 1 to 2 kB, and schemas in use need some thousand, so a hostile grammar takes up to
/// 100 MB and no more.
const MAX_LEXER_STATES: usize = 50_000;
/// Symbols of a grammar; the largest schema that passes the limit of bytes has fewer.
const MAX_GRAMMAR_SIZE: usize = 100_000;
/// Rules that lead to one another are compiled by recursion, some 2 kB of stack for each.
const COMPILER_STACK_BYTES: usize = 64 << 20;

pub struct GuideMaker {
    parsers: ParserFactory,
}

impl GuideMaker {
    /// `eos`: what ends an answer. `vocab`: how many logits there are.
    pub fn new(tokenizer: &Tokenizer, eos: &[TokenId], vocab: usize) -> Result<Self, Error> {
        if eos.is_empty() {
            let problem = "the model has no token that ends an answer".into();
            return Err(Error::NoGuides { problem });
        }
        let tree = token_tree(tokenizer, eos, vocab);
        let mut parsers = ParserFactory::new_simple(&tree)
            .map_err(|error| Error::NoGuides { problem: error.to_string() })?;
        *parsers.limits_mut() = ParserLimits {
            max_lexer_states: MAX_LEXER_STATES,
            max_grammar_size: MAX_GRAMMAR_SIZE,
            // It would run expressions over the whole vocabulary, without a limit of time.
            precompute_large_lexemes: false,
            verbose_errors: false,
            ..ParserLimits::default()
        };
        parsers.quiet();
        Ok(GuideMaker { parsers })
    }

    /// Compiles a grammar, or says what is wrong with it. Takes milliseconds, and up to seconds
    /// for one that was written to be slow.
    pub fn guide(&self, grammar: &Grammar) -> Result<Guide, Error> {
        let bad = |problem| Error::BadGrammar { option: grammar.option, problem };
        grammar.rule.check_size().map_err(bad)?;
        self.parser(grammar).and_then(Guide::new).map_err(bad)
    }

    fn parser(&self, grammar: &Grammar) -> Result<TokenParser, String> {
        let compile = || self.parsers.create_parser(grammar.rule.to_llguidance());
        let parser = thread::scope(|scope| {
            let builder = thread::Builder::new().stack_size(COMPILER_STACK_BYTES);
            let compiler = builder.spawn_scoped(scope, compile).map_err(|e| e.to_string())?;
            compiler.join().map_err(|_| "the grammar's compiler has panicked".to_owned())
        })?;
        parser.map_err(|error| first_part(&format!("{error:#}")))
    }
}

/// Without the backtrace of a panic that the parser has caught.
fn first_part(problem: &str) -> String {
    problem.split("\n<backtrace>").next().unwrap_or_default().trim_end().to_owned()
}
