//! The front of a ranking engine that runs on its own thread.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use terrace_cache::users::{CachedSpan, UserKey, check_start};
use terrace_tiers::Wake;
use tokio::sync::oneshot;

use super::rank_engine::{RankEngine, RankEvents, RankStats};
use super::rank_error::RankError;
use super::rank_front::RankFront;
use super::rank_job::{JobId, RankJob};
use super::rank_output::RankOutput;
use super::rank_request::RankRequest;
use super::removals::{Removal, RemovalId, Removed};
use super::retrieve_request::{RetrieveOutput, RetrieveRequest, RetrievedItem};
use super::scored_row::ScoredRow;
use crate::generate::engine::Rest;

/// Reaches an engine from any thread; clones reach the same one. The last to go ends its thread.
#[derive(Clone)]
pub struct RankHandle {
    front: Arc<RankFront>,
    link: Arc<Link>,
}

/// What is cached of a user.
pub type UserCacheInfo = (UserKey, CachedSpan);

/// Events of a user that come at the same time are tried again behind each other.
const EVENT_ATTEMPTS: usize = 16;

struct Link {
    commands: Arc<Mutex<Option<Sender<Command>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

enum Command {
    Rank(Box<RankJob>, oneshot::Sender<Result<RankOutput, RankError>>),
    Stats(oneshot::Sender<RankStats>),
    Span(UserKey, oneshot::Sender<CachedSpan>),
    Ids(UserKey, oneshot::Sender<Vec<i64>>),
    Users {
        tenant: String,
        most: usize,
        reply: oneshot::Sender<Vec<UserCacheInfo>>,
    },
    Offload(UserKey, oneshot::Sender<Result<usize, RankError>>),
    Remove(Removal, oneshot::Sender<Removed>),
    Flush(oneshot::Sender<()>),
    /// A lower tier has done something.
    Wake,
}

impl RankHandle {
    /// Starts the engine's thread.
    pub fn spawn(mut engine: RankEngine, front: RankFront) -> Self {
        let (commands, inbox) = mpsc::channel();
        let commands = Arc::new(Mutex::new(Some(commands)));
        engine.wake_by(waker(&commands));
        let body = move || EngineLoop::new(engine, inbox).run();
        let thread = std::thread::Builder::new()
            .name("terrace-rank".into())
            .spawn(body)
            .expect("the operating system has a thread for the engine");
        let thread = Mutex::new(Some(thread));
        RankHandle { front: Arc::new(front), link: Arc::new(Link { commands, thread }) }
    }

    pub fn front(&self) -> &RankFront {
        &self.front
    }

    /// Ranks candidates. A request whose future is dropped is cancelled.
    pub async fn rank(&self, request: RankRequest) -> Result<RankOutput, RankError> {
        if self.front.retrieves {
            return Err(RankError::Retrieves);
        }
        if request.candidates.is_empty() {
            return Err(RankError::NoCandidates);
        }
        self.append(request).await
    }

    /// Finds the items that best follow a history. A request whose future is dropped is cancelled.
    pub async fn retrieve(&self, request: RetrieveRequest) -> Result<RetrieveOutput, RankError> {
        if !self.front.retrieves {
            return Err(RankError::Ranks);
        }
        let request = self.with_cached(request).await?;
        let job = self.front.retrieval_job(request)?;
        let output = self.ask(|reply| Command::Rank(Box::new(job), reply)).await??;
        let (tables, table) = (&self.front.tables, self.front.item_table);
        let item = |found: &ScoredRow| {
            let item = tables.key(table, found.row as usize).expect("a row of the table");
            RetrievedItem { item, score: found.score }
        };
        let items = output.found.iter().map(item).collect();
        Ok(RetrieveOutput { items, output })
    }

    /// A request that begins where the cache ends, with all before it.
    async fn with_cached(&self, request: RetrieveRequest) -> Result<RetrieveRequest, RankError> {
        let Some(start) = request.history.start else { return Ok(request) };
        if self.front.has_times {
            return Err(RankError::NeedsTimes);
        }
        let ids = self.ids(request.history.user.clone()).await?;
        check_start(ids.len(), start)?;
        Ok(RetrieveRequest { history: self.front.continued(&ids, &request.history), ..request })
    }

    /// The original's `append_kvcache`: computes what is new of a history and keeps it. A request
    /// whose future is dropped is cancelled.
    pub async fn append(&self, request: RankRequest) -> Result<RankOutput, RankError> {
        let job = self.front.job(request)?;
        self.ask(|reply| Command::Rank(Box::new(job), reply)).await?
    }

    /// Appends events to what is cached of a user, or, where they begin at a position, there. What
    /// is wrong with them is said at once; the rest is the future's.
    pub async fn append_events(
        &self,
        events: RankRequest,
    ) -> Result<impl Future<Output = Result<RankOutput, RankError>> + use<>, RankError> {
        let mut job = self.events_job(&events).await?;
        let handle = self.clone();
        Ok(async move {
            for _ in 0..EVENT_ATTEMPTS {
                match handle.ask(|reply| Command::Rank(Box::new(job), reply)).await? {
                    // Others have come before: these follow them.
                    Err(RankError::Span(_)) if events.start.is_none() => {}
                    result => return result,
                }
                job = handle.events_job(&events).await?;
            }
            handle.ask(|reply| Command::Rank(Box::new(job), reply)).await?
        })
    }

    /// Events at the end of what is cached, or with all of that where it is not enough to add
    /// them: the user is new, another context is given, or the history becomes too long.
    async fn events_job(&self, events: &RankRequest) -> Result<RankJob, RankError> {
        if events.start.is_some() || self.front.has_times {
            return self.front.job(events.clone());
        }
        let ids = self.ids(events.user.clone()).await?;
        let context = self.front.layout.context;
        let follows =
            context <= ids.len() && (events.context.is_empty() || events.context == ids[..context]);
        if follows {
            let start = Some(ids.len());
            let rest = RankRequest { start, context: Vec::new(), ..events.clone() };
            match self.front.job(rest) {
                Err(RankError::TooLong { .. }) => {}
                job => return job,
            }
        }
        self.front.job(self.front.continued(&ids, events))
    }

    /// The original's `prepare_kv_cache`: what is cached of a user comes to the device.
    pub async fn prepare(&self, user: UserKey) -> Result<RankOutput, RankError> {
        if self.front.has_times {
            return Err(RankError::NeedsTimes);
        }
        let ids = self.ids(user.clone()).await?;
        let job = self.front.job_of_history(user, ids);
        self.ask(|reply| Command::Rank(Box::new(job), reply)).await?
    }

    /// Whether the engine's thread lives.
    pub fn is_running(&self) -> bool {
        let thread = self.link.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    pub async fn stats(&self) -> Result<RankStats, RankError> {
        self.ask(Command::Stats).await
    }

    /// The original's `get_user_kvdata_info`: what is cached of a user.
    pub async fn span(&self, user: UserKey) -> Result<CachedSpan, RankError> {
        self.ask(|reply| Command::Span(user, reply)).await
    }

    /// A tenant's users of whom something is cached, the most recently used first.
    pub async fn users(&self, tenant: &str, most: usize) -> Result<Vec<UserCacheInfo>, RankError> {
        let tenant = tenant.to_owned();
        self.ask(|reply| Command::Users { tenant, most, reply }).await
    }

    /// The ids of what is cached of a user, position by position.
    pub async fn ids(&self, user: UserKey) -> Result<Vec<i64>, RankError> {
        self.ask(|reply| Command::Ids(user, reply)).await
    }

    /// The original's `offload_kv_cache`: what no other level has of a user is copied to the
    /// host; how many tokens that is.
    pub async fn offload(&self, user: UserKey) -> Result<usize, RankError> {
        self.ask(|reply| Command::Offload(user, reply)).await?
    }

    /// All of a user goes, from every level, after the requests of it that have begun.
    pub async fn remove_user(&self, user: UserKey) -> Result<Removed, RankError> {
        let prefix = self.front.seed.root(&user).prefix().to_vec();
        let removal = Removal { user: Some(user), prefix };
        self.ask(|reply| Command::Remove(removal, reply)).await
    }

    /// The original's `evict_kv_cache`: all users go, from every level, after the requests that
    /// have begun.
    pub async fn evict_all(&self) -> Result<Removed, RankError> {
        let prefix = self.front.seed.model_prefix().to_vec();
        self.ask(|reply| Command::Remove(Removal { user: None, prefix }, reply)).await
    }

    /// Copies all that is cached to the lower tiers, as far as they take it: before an end.
    pub async fn flush(&self) -> Result<(), RankError> {
        self.ask(Command::Flush).await
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

/// Wakes an engine as long as somebody can send it commands: its own threads do not keep it.
fn waker(commands: &Arc<Mutex<Option<Sender<Command>>>>) -> Wake {
    let commands = Arc::downgrade(commands);
    Arc::new(move || {
        if let Some(commands) = commands.upgrade()
            && let Some(commands) = &*commands.lock().unwrap_or_else(PoisonError::into_inner)
        {
            // An engine that has ended waits for nothing.
            let _ = commands.send(Command::Wake);
        }
    })
}

impl Drop for Link {
    fn drop(&mut self) {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).take();
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
    removals: HashMap<RemovalId, oneshot::Sender<Removed>>,
    flushes: Vec<oneshot::Sender<()>>,
}

impl EngineLoop {
    fn new(engine: RankEngine, inbox: Receiver<Command>) -> Self {
        let (replies, removals) = (HashMap::new(), HashMap::new());
        EngineLoop { engine, inbox, replies, removals, flushes: Vec::new() }
    }

    /// Ends when nobody can send a command any more.
    fn run(mut self) {
        loop {
            loop {
                match self.inbox.try_recv() {
                    Ok(command) => self.obey(command),
                    Err(mpsc::TryRecvError::Empty) => break,
                    Err(mpsc::TryRecvError::Disconnected) => return,
                }
            }
            self.cancel_abandoned();
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
