//! From a grammar to a guide, on a thread whose stack is large enough.

use std::thread;

use llguidance::ParserFactory;

use super::guide_budget::parser_limits;
use super::token_texts::TokenTexts;
use super::{GrammarRule, Guide, grammar_limits};
use crate::error::Error;

/// Rules that lead to one another are compiled by recursion, some 2 kB of stack for each.
const COMPILER_STACK_BYTES: usize = 64 << 20;

pub(super) struct Compiler {
    parsers: ParserFactory,
}

impl Compiler {
    pub fn new(texts: &TokenTexts) -> Result<Self, Error> {
        let mut parsers = ParserFactory::new_simple(&texts.tree())
            .map_err(|error| Error::NoGuides { problem: error.to_string() })?;
        *parsers.limits_mut() = parser_limits();
        parsers.quiet();
        Ok(Compiler { parsers })
    }

    /// Compiles a grammar, or says what is wrong with it. To be run on a compiler's thread.
    pub fn compile(&self, rule: &GrammarRule) -> Result<Guide, String> {
        grammar_limits::check(rule)?;
        let parser = self.parsers.create_parser(rule.to_llguidance());
        parser.map_err(|error| first_part(&format!("{error:#}"))).and_then(Guide::new)
    }
}

/// A thread that can compile.
pub(super) fn compiler_thread() -> thread::Builder {
    thread::Builder::new().name("grammar".into()).stack_size(COMPILER_STACK_BYTES)
}

/// Without the backtrace of a panic that the parser has caught.
fn first_part(problem: &str) -> String {
    problem.split("\n<backtrace>").next().unwrap_or_default().trim_end().to_owned()
}
