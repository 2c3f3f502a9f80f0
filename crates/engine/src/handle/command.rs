//! The commands that an engine's thread takes.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::shutdown::Shutdown;
use crate::error::Error;
use crate::generate::cache_trace::CacheTrace;
use crate::generate::engine::Positions;
use crate::generate::request::{Request, RequestId};
use crate::generate::request_retention::SessionKey;
use crate::generate::session_reading::SessionReading;
use crate::generate::token_event::TokenEvent;

pub(crate) enum Command {
    /// Requests that are there together when the next step is planned.
    Submit(Vec<Submission>),
    Cancel(RequestId),
    CancelChoice(RequestId, usize),
    TraceCaches(Positions, oneshot::Sender<Result<Vec<CacheTrace>, Error>>),
    ListSessions(SessionQuery, oneshot::Sender<Vec<SessionReading>>),
    EndSession(SessionKey, oneshot::Sender<bool>),
    /// The lower tiers have done something.
    Wake,
    Stop(Shutdown),
}

/// Which sessions are listed, by id.
pub(crate) struct SessionQuery {
    pub(crate) owner: Option<usize>,
    /// Those after this id.
    pub(crate) after: Option<String>,
    pub(crate) most: usize,
}

pub(crate) struct Submission {
    pub(crate) id: RequestId,
    pub(crate) request: Arc<Request>,
    /// Unbounded: the engine never waits for a slow reader, and a request makes at most
    /// `choices * (max_new_tokens + 1) + 2` events.
    pub(crate) events: UnboundedSender<TokenEvent>,
}
