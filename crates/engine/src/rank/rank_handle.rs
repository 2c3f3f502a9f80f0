//! The front of a ranking engine that runs on its own thread.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use terrace_cache::users::{CachedSpan, UserKey};
use tokio::sync::oneshot;

use super::rank_engine::{RankEngine, RankStats};
use super::rank_error::RankError;
use super::rank_front::RankFront;
use super::rank_job::{JobId, RankJob};
use super::rank_request::{RankOutput, RankRequest};

/// Reaches an engine from any thread; clones reach the same one. The last to go ends its thread.
#[derive(Clone)]
pub struct RankHandle {
    front: Arc<RankFront>,
    link: Arc<Link>,
}

/// What is cached of a user.
pub type UserCacheInfo = (UserKey, CachedSpan);

struct Link {
    commands: Mutex<Option<Sender<Command>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Command {
    Rank(Box<RankJob>, oneshot::Sender<Result<RankOutput, RankError>>),
    Stats(oneshot::Sender<RankStats>),
    Span(UserKey, oneshot::Sender<CachedSpan>),
    Users(usize, oneshot::Sender<Vec<UserCacheInfo>>),
    Remove(UserKey, oneshot::Sender<Option<usize>>),
    EvictAll(oneshot::Sender<usize>),
}

impl RankHandle {
    /// Starts the engine's thread.
    pub fn spawn(engine: RankEngine, front: RankFront) -> Self {
        let (commands, inbox) = mpsc::channel();
        let body = move || EngineLoop { engine, inbox, replies: HashMap::new() }.run();
        let thread = std::thread::Builder::new()
            .name("terrace-rank".into())
            .spawn(body)
            .expect("the operating system has a thread for the engine");
        let (commands, thread) = (Mutex::new(Some(commands)), Mutex::new(Some(thread)));
        RankHandle { front: Arc::new(front), link: Arc::new(Link { commands, thread }) }
    }

    pub fn front(&self) -> &RankFront {
        &self.front
    }

    /// Ranks candidates. A request whose future is dropped is cancelled.
    pub async fn rank(&self, request: RankRequest) -> Result<RankOutput, RankError> {
        let job = self.front.job(request)?;
        self.ask(|reply| Command::Rank(Box::new(job), reply)).await?
    }

    pub async fn stats(&self) -> Result<RankStats, RankError> {
        self.ask(Command::Stats).await
    }

    /// The original's `get_user_kvdata_info`: what is cached of a user.
    pub async fn span(&self, user: UserKey) -> Result<CachedSpan, RankError> {
        self.ask(|reply| Command::Span(user, reply)).await
    }

    /// Users of whom something is cached, the most recently used first.
    pub async fn users(&self, most: usize) -> Result<Vec<UserCacheInfo>, RankError> {
        self.ask(|reply| Command::Users(most, reply)).await
    }

    /// All of a user goes; how many tokens were cached. `None` while a request of it runs.
    pub async fn remove_user(&self, user: UserKey) -> Result<Option<usize>, RankError> {
        self.ask(|reply| Command::Remove(user, reply)).await
    }

    /// The original's `evict_kv_cache`: all users go; how many there were.
    pub async fn evict_all(&self) -> Result<usize, RankError> {
        self.ask(Command::EvictAll).await
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, RankError> {
        let (reply, answer) = oneshot::channel();
        self.link.send(command(reply))?;
        answer.await.map_err(|_| RankError::Stopped)
    }
}

impl Link {
    fn send(&self, command: Command) -> Result<(), RankError> {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let commands = commands.as_ref().ok_or(RankError::Stopped)?;
        commands.send(command).map_err(|_| RankError::Stopped)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.commands.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // A panic there was reported when it happened.
            let _ = thread.join();
        }
    }
}

struct EngineLoop {
    engine: RankEngine,
    inbox: Receiver<Command>,
    replies: HashMap<JobId, oneshot::Sender<Result<RankOutput, RankError>>>,
}

impl EngineLoop {
    /// Ends when nobody can send a command any more.
    fn run(mut self) {
        loop {
            if self.engine.is_idle() {
                let Ok(command) = self.inbox.recv() else { return };
                self.obey(command);
            }
            loop {
                match self.inbox.try_recv() {
                    Ok(command) => self.obey(command),
                    Err(mpsc::TryRecvError::Empty) => break,
                    Err(mpsc::TryRecvError::Disconnected) => return,
                }
            }
            self.cancel_abandoned();
            for (id, result) in self.engine.step() {
                if let Some(reply) = self.replies.remove(&id) {
                    // Who has asked may have left.
                    let _ = reply.send(result);
                }
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

    fn obey(&mut self, command: Command) {
        match command {
            Command::Rank(job, reply) => match self.engine.add(*job) {
                Ok(id) => {
                    self.replies.insert(id, reply);
                }
                Err(error) => drop(reply.send(Err(error))),
            },
            Command::Stats(reply) => drop(reply.send(self.engine.stats())),
            Command::Span(user, reply) => drop(reply.send(self.engine.span(&user))),
            Command::Users(most, reply) => drop(reply.send(self.engine.users(most))),
            Command::Remove(user, reply) => drop(reply.send(self.engine.remove_user(&user))),
            Command::EvictAll(reply) => drop(reply.send(self.engine.evict_all())),
        }
    }
}
