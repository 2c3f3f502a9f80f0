//! The commands that an engine's thread takes.

use std::sync::Arc;

use terrace_tiers::HandleId;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::shutdown::Shutdown;
use crate::error::Error;
use crate::generate::cache_trace::CacheTrace;
use crate::generate::engine::Positions;
use crate::generate::kept_handle::{KeepAs, KeptHandle};
use crate::generate::past::Past;
use crate::generate::request::{Request, RequestId};
use crate::generate::request_retention::SessionKey;
use crate::generate::session_reading::{SessionQuery, SessionReading};
use crate::generate::token_event::TokenEvent;

pub(crate) enum Command {
    /// Requests that are there together when the next step is planned.
    Submit(Vec<Submission>),
    Cancel(RequestId),
    CancelChoice(RequestId, usize),
    /// Loads a handle and keeps it in memory.
    Pin {
        id: HandleId,
        past: Arc<Past>,
        reply: HandleReply,
    },
    Unpin(HandleId),
    /// Lets what is kept by name go.
    Release(HandleId, oneshot::Sender<()>),
    /// A request that has ended lately.
    Recent(RequestId, oneshot::Sender<Option<Arc<Past>>>),
    TraceCaches(Positions, oneshot::Sender<Result<Vec<CacheTrace>, Error>>),
    ListSessions(SessionQuery, oneshot::Sender<Vec<SessionReading>>),
    EndSession(SessionKey, oneshot::Sender<bool>),
    /// The lower tiers have done something.
    Wake,
    Stop(Shutdown),
}

/// Where what came of keeping or pinning goes.
pub(crate) type HandleReply = oneshot::Sender<Result<KeptHandle, Error>>;

pub(crate) struct Submission {
    pub(crate) id: RequestId,
    /// Its prompt begins with all of `past`.
    pub(crate) request: Arc<Request>,
    pub(crate) past: Option<Arc<Past>>,
    /// How what it leaves is kept.
    pub(crate) keep: Option<(KeepAs, HandleReply)>,
    /// Unbounded: the engine never waits for a slow reader, and a request makes at most
    /// `choices * (max_new_tokens + 1) + 2` events.
    pub(crate) events: UnboundedSender<TokenEvent>,
}
