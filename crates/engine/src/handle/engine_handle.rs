//! The front of an engine that runs on its own thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard};

use terrace_tiers::HandleId;
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::{oneshot, watch};

use super::board::{Board, Front};
use super::command::{Command, HandleReply, Submission};
use super::engine_link::EngineLink;
use super::engine_thread::EngineThread;
use super::shutdown::Shutdown;
use super::token_receiver::TokenReceiver;
use crate::error::Error;
use crate::generate::cache_trace::CacheTrace;
use crate::generate::engine::{Engine, Positions};
use crate::generate::engine_stats::EngineStats;
use crate::generate::kept_handle::{KeepAs, KeptHandle};
use crate::generate::limits::Limits;
use crate::generate::past::Past;
use crate::generate::request::{Request, RequestId};
use crate::generate::request_retention::SessionKey;
use crate::generate::session_reading::{SessionQuery, SessionReading};

/// Reaches an engine from any thread; clones reach the same one. The last handle or receiver to go
/// ends the engine's thread and waits for it.
#[derive(Clone)]
pub struct EngineHandle {
    link: Arc<EngineLink>,
    board: Arc<Board>,
    limits: Arc<Limits>,
}

/// A request on its way to the engine's thread.
struct Submitted {
    request: Request,
    past: Option<Arc<Past>>,
    keep: Option<(KeepAs, HandleReply)>,
}

impl EngineHandle {
    /// Starts the engine's thread.
    pub fn spawn(mut engine: Engine) -> EngineHandle {
        let (commands, inbox) = mpsc::channel();
        let waking = commands.clone();
        // An engine that has stopped need not be woken.
        engine.wake_by(Arc::new(move || drop(waking.send(Command::Wake))));
        let limits = engine.limits();
        let front = Front {
            stats: engine.stats(),
            unseen: 0,
            next_request: engine.next_request(),
            is_accepting: true,
            resident: Vec::new(),
        };
        let board = Arc::new(Board {
            front: Mutex::new(front),
            steps: watch::Sender::new(0),
            is_running: AtomicBool::new(true),
        });
        let body = EngineThread::new(engine, inbox, Arc::clone(&board));
        let thread = std::thread::Builder::new()
            .name("terrace-engine".into())
            .spawn(move || body.run())
            .expect("the operating system has a thread for the engine");
        EngineHandle { link: Arc::new(EngineLink::new(commands, thread)), board, limits }
    }

    /// Sends a request to the engine, or says why it will not be served. Does not wait for the
    /// engine: all checks are made here.
    pub fn submit(&self, request: Request) -> Result<TokenReceiver, Error> {
        self.submit_from(None, request)
    }

    /// As `submit`; where there is a past, for a request that it was
    /// [extended](Past::extend) by.
    pub fn submit_from(
        &self,
        past: Option<Arc<Past>>,
        request: Request,
    ) -> Result<TokenReceiver, Error> {
        let mut receivers = self.send(vec![Submitted { request, past, keep: None }])?;
        Ok(receivers.pop().expect("one request has one receiver"))
    }

    /// As `submit_from`, for a request of which what it leaves is kept; what comes of that is sent
    /// when it is durable, where it shall be.
    pub(crate) fn keep(
        &self,
        past: Option<Arc<Past>>,
        request: Request,
        keep: KeepAs,
    ) -> Result<(TokenReceiver, oneshot::Receiver<Result<KeptHandle, Error>>), Error> {
        let (reply, kept) = oneshot::channel();
        let mut receivers =
            self.send(vec![Submitted { request, past, keep: Some((keep, reply)) }])?;
        Ok((receivers.pop().expect("one request has one receiver"), kept))
    }

    /// Loads a handle and keeps it in memory; what comes of that.
    pub(crate) fn pin(
        &self,
        id: HandleId,
        past: Arc<Past>,
    ) -> Result<oneshot::Receiver<Result<KeptHandle, Error>>, Error> {
        let (reply, pinned) = oneshot::channel();
        self.link.send(Command::Pin { id, past, reply }).map_err(|_| Error::Stopped)?;
        Ok(pinned)
    }

    pub(crate) fn unpin(&self, id: HandleId) -> Result<(), Error> {
        self.link.send(Command::Unpin(id)).map_err(|_| Error::Stopped)
    }

    /// Lets what is kept by name go; when that is done, who waits for it finds its pages free.
    pub(crate) fn release(&self, id: HandleId) -> oneshot::Receiver<()> {
        let (reply, released) = oneshot::channel();
        // An engine that has stopped keeps nothing.
        let _ = self.link.send(Command::Release(id, reply));
        released
    }

    /// A request with one output that is among the last that have ended.
    pub(crate) async fn recent(&self, id: RequestId) -> Result<Arc<Past>, Error> {
        let (reply, past) = oneshot::channel();
        self.link.send(Command::Recent(id, reply)).map_err(|_| Error::Stopped)?;
        let past = past.await.map_err(|_| Error::Stopped)?;
        past.ok_or(Error::NoRecentResponse { id: id.0 })
    }

    /// Names whose pages are in memory, as of the last step.
    pub(crate) fn resident_handles(&self) -> Vec<HandleId> {
        self.front().resident.clone()
    }

    /// As `submit`, for requests that shall be there together when the next step is planned; all
    /// are taken or none.
    pub fn submit_all(&self, requests: Vec<Request>) -> Result<Vec<TokenReceiver>, Error> {
        let plain = |request| Submitted { request, past: None, keep: None };
        self.send(requests.into_iter().map(plain).collect())
    }

    fn send(&self, requests: Vec<Submitted>) -> Result<Vec<TokenReceiver>, Error> {
        requests.iter().try_for_each(|submitted| self.limits.check(&submitted.request))?;
        // Held while sending, so that ids grow in the order in which the engine sees them.
        let mut front = self.front();
        if !front.is_accepting {
            return Err(Error::Stopped);
        }
        let waiting = front.stats.waiting + front.unseen;
        (0..requests.len()).try_for_each(|more| self.limits.check_queue(waiting + more))?;
        let count = requests.len();
        let (mut submissions, mut receivers) = (Vec::new(), Vec::new());
        for (id, submitted) in (front.next_request..).map(RequestId).zip(requests) {
            let Submitted { request, past, keep } = submitted;
            let (events, outbox) = unbounded_channel();
            let choices = request.choices();
            receivers.push(TokenReceiver::new(id, choices, outbox, Arc::clone(&self.link)));
            submissions.push(Submission { id, request: Arc::new(request), past, keep, events });
        }
        self.link.send(Command::Submit(submissions)).map_err(|_| Error::Stopped)?;
        front.next_request += count as u64;
        front.unseen += count;
        Ok(receivers)
    }

    pub fn stats(&self) -> EngineStats {
        let front = self.front();
        let mut stats = front.stats.clone();
        stats.waiting += front.unseen;
        stats
    }

    /// What the cache of every sequence holds, after the step under way.
    pub async fn cache_traces(&self, positions: Positions) -> Result<Vec<CacheTrace>, Error> {
        let (reply, traces) = oneshot::channel();
        let command = Command::TraceCaches(positions, reply);
        self.link.send(command).map_err(|_| Error::Stopped)?;
        traces.await.map_err(|_| Error::Stopped)?
    }

    pub async fn sessions(&self, query: SessionQuery) -> Result<Vec<SessionReading>, Error> {
        let (reply, sessions) = oneshot::channel();
        self.link.send(Command::ListSessions(query, reply)).map_err(|_| Error::Stopped)?;
        sessions.await.map_err(|_| Error::Stopped)
    }

    /// Ends a session; whether there was one.
    pub async fn end_session(&self, key: SessionKey) -> Result<bool, Error> {
        let (reply, ended) = oneshot::channel();
        self.link.send(Command::EndSession(key, reply)).map_err(|_| Error::Stopped)?;
        ended.await.map_err(|_| Error::Stopped)
    }

    /// Whether the engine's thread is alive.
    pub fn is_running(&self) -> bool {
        self.board.is_running.load(Ordering::Acquire)
    }

    /// Waits for the end of the engine's next step; returns at once when it has nothing to do.
    pub async fn next_step(&self) {
        let mut steps = self.board.steps.subscribe();
        let stats = self.stats();
        if 0 < stats.waiting + stats.running && self.is_running() {
            // The sender lives in the board, which this handle shares.
            let _ = steps.changed().await;
        }
    }

    /// Stops the engine and waits until its thread has ended. `Now` may follow `Drain`.
    pub fn shutdown(&self, how: Shutdown) {
        self.front().is_accepting = false;
        self.link.stop(how);
    }

    fn front(&self) -> MutexGuard<'_, Front> {
        self.board.front.lock().expect("no one panics while holding it")
    }
}
