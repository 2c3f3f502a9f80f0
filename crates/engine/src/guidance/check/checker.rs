//! The processes that check the grammars of one model: kept warm, and so many at once.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::super::token_texts::TokenTexts;
use super::check_process::CheckProcess;
use super::frame::{encode_texts, framed};
use super::{CHECK_WALL_TIME, GrammarCheck};
use crate::error::Error;

/// A process that took longer for a grammar is not asked again: what it holds of its memory would
/// count for the next one.
const QUICK: Duration = Duration::from_millis(250);

pub(crate) struct GrammarChecker {
    check: GrammarCheck,
    /// The vocabulary as a frame.
    texts: Vec<u8>,
    places: Arc<Semaphore>,
    /// Processes that wait for a grammar.
    idle: Mutex<Vec<CheckProcess>>,
}

/// Why a grammar is not compiled.
pub(crate) enum Refusal {
    /// It is bad, or takes too much.
    Grammar(String),
    /// It took too long just now; at another time it might not.
    ForNow(String),
    NoCompiler(io::Error),
}

impl GrammarChecker {
    pub fn new(check: GrammarCheck, texts: &TokenTexts) -> Self {
        GrammarChecker {
            texts: framed(&encode_texts(texts)),
            places: Arc::new(Semaphore::new(check.at_once)),
            idle: Mutex::default(),
            check,
        }
    }

    /// Waits for a place among those that are compiled at once; it is free again when dropped.
    pub async fn place(&self) -> Result<OwnedSemaphorePermit, Error> {
        let place = timeout(self.check.place_time, Arc::clone(&self.places).acquire_owned()).await;
        match place {
            Ok(place) => Ok(place.expect("the places are never closed")),
            Err(_) => {
                let (time, at_once) = (self.check.place_time, self.check.at_once);
                let why = format!("{at_once} others were compiled for {time:?}");
                Err(Error::NoCompiler { why })
            }
        }
    }

    /// Tries a grammar. Dropping the future ends the process that tries it.
    pub async fn check(&self, grammar: &str) -> Result<(), Refusal> {
        let started = Instant::now();
        match timeout(CHECK_WALL_TIME, self.ask(grammar, started)).await {
            Ok(answer) => answer,
            Err(_) => Err(Refusal::ForNow(format!(
                "compiling it takes more than {} s, the limit; make it simpler",
                CHECK_WALL_TIME.as_secs()
            ))),
        }
    }

    async fn ask(&self, grammar: &str, started: Instant) -> Result<(), Refusal> {
        let mut process = match self.idle_process() {
            Some(process) => process,
            None => CheckProcess::start(&self.check).map_err(Refusal::NoCompiler)?,
        };
        match process.ask(&self.texts, grammar).await {
            Ok(answer) => self.answered(process, answer, started),
            Err(_) => {
                let words = process.last_words().await.map_err(Refusal::NoCompiler)?;
                Err(Refusal::Grammar(words))
            }
        }
    }

    fn idle_process(&self) -> Option<CheckProcess> {
        let mut idle = self.idle.lock().expect("nothing panics while it is held");
        // One that somebody has ended meanwhile is dropped.
        std::iter::from_fn(|| idle.pop()).find_map(CheckProcess::if_running)
    }

    fn answered(
        &self,
        process: CheckProcess,
        answer: Result<(), String>,
        started: Instant,
    ) -> Result<(), Refusal> {
        if started.elapsed() < QUICK {
            self.idle.lock().expect("nothing panics while it is held").push(process);
        }
        answer.map_err(Refusal::Grammar)
    }
}
