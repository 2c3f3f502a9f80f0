//! The front of a ranking engine that runs on its own thread.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use terrace_cache::users::{CachedSpan, UserKey, check_start};
use terrace_tiers::Wake;
use tokio::sync::oneshot;

use super::engine_loop::EngineLoop;
use super::job_rows::JobRows;
use super::rank_command::{Command, UserCacheInfo};
use super::rank_config::RankConfig;
use super::rank_engine::{RankEngine, RankStats};
use super::rank_error::RankError;
use super::rank_front::RankFront;
use super::rank_job::RankJob;
use super::rank_output::RankOutput;
use super::rank_request::RankRequest;
use super::removals::{Removal, Removed};
use super::retrieve_request::{RetrieveOutput, RetrieveRequest};

/// Reaches an engine from any thread; clones reach the same one. The last to go ends its thread.
#[derive(Clone)]
pub struct RankHandle {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    /// That of the checkpoint that is served.
    front: Arc<RwLock<Arc<RankFront>>>,
    pub config: RankConfig,
    /// Held by who loads a checkpoint.
    pub reloads: Mutex<()>,
    link: Link,
}

/// Events of a user that come at the same time are tried again behind each other.
const EVENT_ATTEMPTS: usize = 16;

/// Of which tokens a job brings embedding rows, where a parameter server has them.
#[derive(Clone, Copy)]
enum NeededRows {
    /// Of those that are not cached.
    New,
    All,
}

struct Link {
    commands: Arc<Mutex<Option<Sender<Command>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl RankHandle {
    /// Starts the engine's thread.
    pub fn spawn(mut engine: RankEngine, front: RankFront, config: RankConfig) -> Self {
        let (commands, inbox) = mpsc::channel();
        let commands = Arc::new(Mutex::new(Some(commands)));
        engine.wake_by(waker(&commands));
        let front = Arc::new(RwLock::new(Arc::new(front)));
        let served = Arc::clone(&front);
        let body = move || EngineLoop::new(engine, inbox, served).run();
        let thread = std::thread::Builder::new()
            .name("terrace-rank".into())
            .spawn(body)
            .expect("the operating system has a thread for the engine");
        let thread = Mutex::new(Some(thread));
        let (reloads, link) = (Mutex::new(()), Link { commands, thread });
        RankHandle { shared: Arc::new(Shared { front, config, reloads, link }) }
    }

    /// That of the checkpoint that is served.
    pub fn front(&self) -> Arc<RankFront> {
        Arc::clone(&self.shared.front.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a job and waits for its end. Where another checkpoint has come between, it is made
    /// again.
    pub(super) async fn run(
        &self,
        made: impl Fn(&RankFront) -> Result<RankJob, RankError>,
    ) -> Result<RankOutput, RankError> {
        let mut needed = NeededRows::New;
        loop {
            let front = self.front();
            let job = made(&front)?;
            match self.ask_job(front, job, needed).await? {
                Err(RankError::Outdated) => {}
                Err(RankError::RowsMissing) => needed = NeededRows::All,
                result => return result,
            }
        }
    }

    /// Ranks candidates. A request whose future is dropped is cancelled.
    pub async fn rank(&self, request: RankRequest) -> Result<RankOutput, RankError> {
        if self.front().retrieves {
            return Err(RankError::Retrieves);
        }
        if request.candidates.is_empty() {
            return Err(RankError::NoCandidates);
        }
        self.append(request).await
    }

    /// Finds the items that best follow a history. A request whose future is dropped is cancelled.
    pub async fn retrieve(&self, request: RetrieveRequest) -> Result<RetrieveOutput, RankError> {
        if !self.front().retrieves {
            return Err(RankError::Ranks);
        }
        let request = self.with_cached(request).await?;
        loop {
            let front = self.front();
            let job = front.retrieval_job(&request)?;
            match self.ask_job(Arc::clone(&front), job, NeededRows::New).await? {
                Err(RankError::Outdated) => {}
                // The rows are those of the tables that it was made for.
                result => return result.map(|output| front.retrieved(output)),
            }
        }
    }

    /// A request that begins where the cache ends, with all before it.
    async fn with_cached(&self, request: RetrieveRequest) -> Result<RetrieveRequest, RankError> {
        let Some(start) = request.history.start else { return Ok(request) };
        let front = self.front();
        if front.has_times {
            return Err(RankError::NeedsTimes);
        }
        let ids = self.ids(request.history.user.clone()).await?;
        check_start(ids.len(), start)?;
        Ok(RetrieveRequest { history: front.continued(&ids, &request.history), ..request })
    }

    /// The original's `append_kvcache`: computes what is new of a history and keeps it. A request
    /// whose future is dropped is cancelled.
    pub async fn append(&self, request: RankRequest) -> Result<RankOutput, RankError> {
        self.run(|front| front.job(&request)).await
    }

    /// Appends events to what is cached of a user, or, where they begin at a position, there. What
    /// is wrong with them is said at once; the rest is the future's.
    pub async fn append_events(
        &self,
        events: RankRequest,
    ) -> Result<impl Future<Output = Result<RankOutput, RankError>> + use<>, RankError> {
        let mut front = self.front();
        let mut job = self.events_job(&front, &events).await?;
        let handle = self.clone();
        Ok(async move {
            let mut needed = NeededRows::New;
            for _ in 0..EVENT_ATTEMPTS {
                match handle.ask_job(front, job, needed).await? {
                    // Others have come before: these follow them.
                    Err(RankError::Span(_)) if events.start.is_none() => {}
                    Err(RankError::Outdated) => {}
                    Err(RankError::RowsMissing) => needed = NeededRows::All,
                    result => return result,
                }
                front = handle.front();
                job = handle.events_job(&front, &events).await?;
            }
            handle.ask_job(front, job, needed).await?
        })
    }

    /// Events at the end of what is cached, or with all of that where it is not enough to add
    /// them: the user is new, another context is given, or the history becomes too long.
    async fn events_job(
        &self,
        front: &RankFront,
        events: &RankRequest,
    ) -> Result<RankJob, RankError> {
        if events.start.is_some() || front.has_times {
            return front.job(events);
        }
        let ids = self.ids(events.user.clone()).await?;
        let context = front.layout.context;
        let follows =
            context <= ids.len() && (events.context.is_empty() || events.context == ids[..context]);
        if follows {
            let start = Some(ids.len());
            let rest = RankRequest { start, context: Vec::new(), ..events.clone() };
            match front.job(&rest) {
                Err(RankError::TooLong { .. }) => {}
                job => return job,
            }
        }
        front.job(&front.continued(&ids, events))
    }

    /// The original's `prepare_kv_cache`: what is cached of a user comes to the device.
    pub async fn prepare(&self, user: UserKey) -> Result<RankOutput, RankError> {
        if self.front().has_times {
            return Err(RankError::NeedsTimes);
        }
        let ids = self.ids(user.clone()).await?;
        self.run(|front| Ok(front.job_of_history(user.clone(), ids.clone()))).await
    }

    /// Whether the engine's thread lives.
    pub fn is_running(&self) -> bool {
        let thread = self.shared.link.thread.lock().unwrap_or_else(PoisonError::into_inner);
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
        let prefix = self.front().seed.root(&user).prefix().to_vec();
        let removal = Removal { user: Some(user), prefix };
        self.ask(|reply| Command::Remove(removal, reply)).await
    }

    /// The original's `evict_kv_cache`: all users go, from every level, after the requests that
    /// have begun.
    pub async fn evict_all(&self) -> Result<Removed, RankError> {
        let prefix = self.front().seed.model_prefix().to_vec();
        self.ask(|reply| Command::Remove(Removal { user: None, prefix }, reply)).await
    }

    /// Copies all that is cached to the lower tiers, as far as they take it: before an end.
    pub async fn flush(&self) -> Result<(), RankError> {
        self.ask(Command::Flush).await
    }

    /// Has a job done, with the rows that a parameter server has for it.
    async fn ask_job(
        &self,
        front: Arc<RankFront>,
        mut job: RankJob,
        needed: NeededRows,
    ) -> Result<Result<RankOutput, RankError>, RankError> {
        if matches!(job.rows, JobRows::Unfetched { .. }) {
            let cached = match needed {
                NeededRows::New if job.start.is_none() => self.span(job.user.clone()).await?.length,
                _ => 0,
            };
            let fetching = tokio::task::spawn_blocking(move || {
                front.fetch_rows(&mut job, cached).map(|()| job)
            });
            job = fetching.await.map_err(|error| RankError::Failed(error.to_string()))??;
        }
        self.ask(|reply| Command::Rank(Box::new(job), reply)).await
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, RankError> {
        let (reply, answer) = oneshot::channel();
        self.shared.link.send(command(reply))?;
        answer.await.map_err(|_| RankError::Stopped)
    }

    /// As [`ask`](Self::ask), on a thread that may wait.
    pub(super) fn ask_blocking<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, RankError> {
        let (reply, answer) = oneshot::channel();
        self.shared.link.send(command(reply))?;
        answer.blocking_recv().map_err(|_| RankError::Stopped)
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
