//! What a request asks for the pages it leaves behind: how important they are, for how long, and
//! for which session.

use terrace_cache::placement::Retention;

/// Names a session inside one engine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey {
    /// Who may see it: the same id of two owners names two sessions.
    pub owner: Option<usize>,
    pub id: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRetention {
    /// From 0 to 100; pages of lower priority leave first.
    pub priority: u8,
    /// How long, from the end of the request on; `None` for always, or with a session for
    /// [`SESSION_IDLE_MS`](Self::SESSION_IDLE_MS).
    pub ttl_ms: Option<u64>,
    /// Its conversation's pages stay as long as the session is used.
    pub session: Option<SessionKey>,
}

impl RequestRetention {
    /// How long a session that is not used lives, where nobody says more.
    pub const SESSION_IDLE_MS: u64 = 600_000;
    /// The priority of a session's pages, where nobody says more.
    pub const SESSION_PRIORITY: u8 = 60;

    /// What each page has as soon as the request has used or sealed it. A session claims its pages
    /// when a request of it ends; when the session is over, this is left.
    pub(crate) fn claim(&self, now_ms: u64) -> Retention {
        let RequestRetention { priority, ttl_ms, session } = self;
        match session {
            None => Retention {
                priority: *priority,
                expires_ms: ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms)),
            },
            Some(_) => {
                Retention { priority: Retention::DEFAULT_PRIORITY.min(*priority), expires_ms: None }
            }
        }
    }

    /// What a session has from now on that a request uses as this one does.
    pub(crate) fn session_claim(&self, now_ms: u64) -> Retention {
        let idle_ms = self.ttl_ms.unwrap_or(Self::SESSION_IDLE_MS);
        Retention { priority: self.priority, expires_ms: Some(now_ms.saturating_add(idle_ms)) }
    }
}

impl Default for RequestRetention {
    fn default() -> Self {
        RequestRetention { priority: Retention::DEFAULT_PRIORITY, ttl_ms: None, session: None }
    }
}
