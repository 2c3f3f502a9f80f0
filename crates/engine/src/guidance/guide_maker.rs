//! Makes guides for one model: holds what depends on its vocabulary, not on a grammar.

use std::io;
use std::sync::{Arc, Mutex};

use terrace_model::Tokenizer;
use tokio::sync::oneshot;

use super::check::{GrammarCheck, GrammarChecker, Refusal};
use super::compiler::{Compiler, compiler_thread};
use super::guide_cache::{Compiled, GuideCache};
use super::token_texts::TokenTexts;
use super::{Grammar, GrammarRule, Guide};
use crate::error::Error;
use terrace_cache::TokenId;

pub struct GuideMaker {
    compiler: Arc<Compiler>,
    cache: Arc<Mutex<GuideCache>>,
    checker: Option<GrammarChecker>,
}

impl GuideMaker {
    /// `eos`: what ends an output. `vocab`: how many logits there are. `check`: the process that
    /// tries grammars first; without one nothing bounds the time that compiling takes but the
    /// limits of sizes, so grammars must come from people who are trusted.
    pub fn new(
        tokenizer: &Tokenizer,
        eos: &[TokenId],
        vocab: usize,
        check: Option<&GrammarCheck>,
    ) -> Result<Self, Error> {
        if eos.is_empty() {
            let problem = "the model has no token that ends an answer".into();
            return Err(Error::NoGuides { problem });
        }
        let texts = TokenTexts::of(tokenizer, eos, vocab);
        Ok(GuideMaker {
            compiler: Arc::new(Compiler::new(&texts)?),
            cache: Arc::default(),
            checker: check.map(|check| GrammarChecker::new(check.clone(), &texts)),
        })
    }

    /// Compiles a grammar in this process and waits for it, or says what is wrong with it. Takes
    /// milliseconds, but up to minutes for one that was written to be slow.
    pub fn guide(&self, grammar: &Grammar) -> Result<Guide, Error> {
        let text = written(&grammar.rule);
        let compiled = match self.known(&text) {
            Some(compiled) => compiled,
            None => {
                let compiling = self.compile(text, grammar.rule.clone(), ());
                compiling.blocking_recv().unwrap_or_else(|_| Err(PANICKED.into()))
            }
        };
        finish(grammar, compiled)
    }

    /// As `guide`, without blocking: the grammar is tried in a process of its own first, which
    /// ends when it takes too much, and when the future is dropped.
    pub async fn checked_guide(&self, grammar: &Grammar) -> Result<Guide, Error> {
        let text = written(&grammar.rule);
        if let Some(compiled) = self.known(&text) {
            return finish(grammar, compiled);
        }
        let Some(checker) = &self.checker else {
            let compiling = self.compile(text, grammar.rule.clone(), ());
            return finish(grammar, compiling.await.unwrap_or_else(|_| Err(PANICKED.into())));
        };
        let place = checker.place().await?;
        // Whoever had the place before may have compiled the same.
        if let Some(compiled) = self.known(&text) {
            return finish(grammar, compiled);
        }
        match checker.check(&text).await {
            Ok(()) => {}
            Err(Refusal::Grammar(problem)) => {
                let compiled = Err(problem);
                self.remember(text, &compiled);
                return finish(grammar, compiled);
            }
            Err(Refusal::ForNow(problem)) => return finish(grammar, Err(problem)),
            Err(Refusal::NoCompiler(error)) => return Err(no_compiler(&error)),
        }
        let compiling = self.compile(text, grammar.rule.clone(), place);
        finish(grammar, compiling.await.unwrap_or_else(|_| Err(PANICKED.into())))
    }

    /// Compiles on a thread of its own, which keeps `place` until it is done.
    fn compile<P: Send + 'static>(
        &self,
        text: String,
        rule: GrammarRule,
        place: P,
    ) -> oneshot::Receiver<Compiled> {
        let (sender, receiver) = oneshot::channel();
        let (compiler, cache) = (Arc::clone(&self.compiler), Arc::clone(&self.cache));
        let work = move || {
            let compiled = compiler.compile(&rule).map(Arc::new);
            lock(&cache).insert(text, compiled.clone());
            drop(place);
            // Nobody waits any more if the request was cancelled.
            let _ = sender.send(compiled);
        };
        // Without a thread the sender is dropped, and the receiver hears of it.
        if let Err(error) = compiler_thread().spawn(work) {
            tracing::error!(%error, "no thread to compile a grammar");
        }
        receiver
    }

    fn known(&self, text: &str) -> Option<Compiled> {
        lock(&self.cache).get(text)
    }

    fn remember(&self, text: String, compiled: &Compiled) {
        lock(&self.cache).insert(text, compiled.clone());
    }
}

const PANICKED: &str = "the grammar's compiler has ended without a result";

fn lock(cache: &Mutex<GuideCache>) -> std::sync::MutexGuard<'_, GuideCache> {
    cache.lock().expect("nothing panics while it is held")
}

/// All of a grammar, as it goes to the process that checks it and as it is known by.
fn written(rule: &GrammarRule) -> String {
    serde_json::to_string(rule).expect("strings and values always serialise")
}

fn finish(grammar: &Grammar, compiled: Compiled) -> Result<Guide, Error> {
    match compiled {
        Ok(guide) => Ok(guide.for_request()),
        Err(problem) => Err(Error::BadGrammar { option: grammar.option, problem }),
    }
}

fn no_compiler(error: &io::Error) -> Error {
    tracing::error!(%error, "the process that checks grammars cannot be used");
    Error::NoCompiler { why: "the process that checks grammars cannot be started".into() }
}
