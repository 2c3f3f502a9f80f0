//! The process that checks: compiles one grammar after the other and says what came of it.

use std::io::{self, Read, Write};
use std::sync::mpsc;
use std::{process, thread};

use super::super::compiler::{Compiler, compiler_thread};
use super::super::token_texts::TokenTexts;
use super::super::{GrammarRule, Guide};
use super::frame::{decode_texts, read_frame, write_frame};

/// Tokens along which a guide is tried: words that only later parts of a text may have are met too.
const WALK_TOKENS: usize = 32;

/// Reads a vocabulary and then grammars from `input`, and answers each on `output`. `set_limits` is
/// called before each grammar, so that its time can be counted.
///
/// Ends the process when the input ends, also in the midst of a grammar: whoever asked is gone.
pub fn check_grammars(
    mut input: impl Read + Send + 'static,
    mut output: impl Write + Send,
    mut set_limits: impl FnMut() -> io::Result<()> + Send,
) -> io::Result<()> {
    let texts = decode_texts(&read_frame(&mut input)?)?;
    let (sender, grammars) = mpsc::channel();
    thread::spawn(move || {
        while let Ok(grammar) = read_frame(&mut input) {
            if sender.send(grammar).is_err() {
                return;
            }
        }
        process::exit(0);
    });
    let work = || {
        let compiler = Compiler::new(&texts).map_err(io::Error::other)?;
        for grammar in grammars {
            set_limits()?;
            let answer = check(&compiler, &texts, &grammar);
            write_frame(&mut output, &serde_json::to_vec(&answer)?)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let compiling = compiler_thread().spawn_scoped(scope, work)?;
        compiling.join().unwrap_or_else(|_| Err(io::Error::other("the compiler has panicked")))
    })
}

fn check(compiler: &Compiler, texts: &TokenTexts, grammar: &[u8]) -> Result<(), String> {
    let rule: GrammarRule = serde_json::from_slice(grammar).map_err(|error| error.to_string())?;
    let guide = compiler.compile(&rule)?;
    walk(&guide, texts);
    Ok(())
}

/// Follows the guide for some tokens. What it finds out late is said when it happens again; here
/// only the limits of the process count.
fn walk(guide: &Guide, texts: &TokenTexts) {
    let (state, mut output) = (guide.start(), Vec::new());
    // The golden ratio's fraction: what it picks is spread over the vocabulary.
    let mut at = 0_u64;
    for _ in 0..WALK_TOKENS {
        let Ok(allowed) = state.allowed_after(&output) else { return };
        at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let vocab = texts.texts.len() as u64;
        let first = (at % vocab) as u32;
        let mut ids = (first..vocab as u32).chain(0..first);
        let Some(next) = ids.find(|&id| allowed.contains(id)) else { return };
        if texts.eos.contains(&next) {
            return;
        }
        output.push(next);
    }
}
