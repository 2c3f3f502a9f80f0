//! The thread of an engine: commands in, steps, answers out.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::oneshot;

use super::rank_command::{Command, ReloadReply};
use super::rank_engine::{RankEngine, RankEvents};
use super::rank_error::RankError;
use super::rank_front::RankFront;
use super::rank_job::JobId;
use super::rank_output::RankOutput;
use super::removals::{RemovalId, Removed};
use super::replacement::Replacement;
use crate::generate::engine::Rest;

pub(super) struct EngineLoop {
    engine: RankEngine,
    inbox: Receiver<Command>,
    replies: HashMap<JobId, oneshot::Sender<Result<RankOutput, RankError>>>,
    removals: HashMap<RemovalId, oneshot::Sender<Removed>>,
    flushes: Vec<oneshot::Sender<()>>,
    front: Arc<RwLock<Arc<RankFront>>>,
    /// A checkpoint that waits for the end of the jobs of the one before.
    replacing: Option<(Box<Replacement>, ReloadReply)>,
    /// Who asks meanwhile.
    held: Vec<oneshot::Sender<Result<RankOutput, RankError>>>,
}

impl EngineLoop {
    pub fn new(
        engine: RankEngine,
        inbox: Receiver<Command>,
        front: Arc<RwLock<Arc<RankFront>>>,
    ) -> Self {
        EngineLoop {
            engine,
            inbox,
            replies: HashMap::new(),
            removals: HashMap::new(),
            flushes: Vec::new(),
            front,
            replacing: None,
            held: Vec::new(),
        }
    }

    /// Ends when nobody can send a command any more.
    pub fn run(mut self) {
        loop {
            loop {
                match self.inbox.try_recv() {
                    Ok(command) => self.obey(command),
                    Err(mpsc::TryRecvError::Empty) => break,
                    Err(mpsc::TryRecvError::Disconnected) => return,
                }
            }
            self.cancel_abandoned();
            self.replace_when_idle();
            let (events, has_stepped) = self.engine.step();
            self.answer(events);
            if has_stepped {
                continue;
            }
            if self.engine.is_idle() {
                let answered = self.flushes.drain(..).map(|reply| reply.send(()));
                answered.for_each(|_| {});
            }
            let command = match self.engine.rest() {
                Rest::UntilWoken => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Rest::For(rest) => self.inbox.recv_timeout(rest),
            };
            match command {
                Ok(command) => self.obey(command),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn answer(&mut self, events: RankEvents) {
        // Who has asked may have left.
        for (id, result) in events.jobs {
            if let Some(reply) = self.replies.remove(&id) {
                let _ = reply.send(result);
            }
        }
        for (id, removed) in events.removals {
            if let Some(reply) = self.removals.remove(&id) {
                let _ = reply.send(removed);
            }
        }
    }

    /// Jobs whose clients have left are not computed.
    fn cancel_abandoned(&mut self) {
        let left = self.replies.iter().filter(|(_, reply)| reply.is_closed());
        for id in left.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.replies.remove(&id);
            self.engine.cancel(id);
        }
    }

    /// Once no job is under way, a checkpoint that waits takes over. Who has asked meanwhile asks
    /// again, of the new one.
    fn replace_when_idle(&mut self) {
        if !self.engine.has_no_jobs() {
            return;
        }
        let Some((replacement, reply)) = self.replacing.take() else { return };
        let Replacement { loaded, front, change } = *replacement;
        let replaced = self.engine.replace(loaded, change, front.generation);
        if replaced.is_ok() {
            *self.front.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(front);
        }
        // Who has asked may have left.
        let _ = reply.send(replaced);
        for held in self.held.drain(..) {
            let _ = held.send(Err(RankError::Outdated));
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Rank(_, reply) if self.replacing.is_some() => self.held.push(reply),
            Command::Replace(replacement, reply) => self.replacing = Some((replacement, reply)),
            Command::Rank(job, reply) => match self.engine.add(*job) {
                Ok(id) => {
                    self.replies.insert(id, reply);
                }
                Err(error) => drop(reply.send(Err(error))),
            },
            Command::Stats(reply) => drop(reply.send(self.engine.stats())),
            Command::Span(user, reply) => drop(reply.send(self.engine.span(&user))),
            Command::Ids(user, reply) => drop(reply.send(self.engine.ids(&user))),
            Command::Users { tenant, most, reply } => {
                drop(reply.send(self.engine.users(&tenant, most)));
            }
            Command::Offload(user, reply) => {
                let moved = self.engine.offload(&user);
                drop(reply.send(moved.map_err(|error| RankError::Failed(error.to_string()))));
            }
            Command::Remove(removal, reply) => {
                let id = self.engine.remove(removal);
                self.removals.insert(id, reply);
            }
            Command::Flush(reply) => {
                self.engine.begin_flush();
                self.flushes.push(reply);
            }
            Command::Wake => {}
        }
    }
}
