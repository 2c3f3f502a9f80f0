//! The sessions of an engine, for people and programs to look at and to end.

use crate::generate::engine::Engine;
use crate::generate::request_retention::SessionKey;
use crate::generate::session_reading::{SessionQuery, SessionReading};

impl Engine {
    pub fn sessions(&self, query: &SessionQuery) -> Vec<SessionReading> {
        self.scheduler.read_sessions(query)
    }

    /// Ends a session: its pages have the default priority, but for those that another session has
    /// too. Whether there was one.
    pub fn end_session(&mut self, key: &SessionKey) -> bool {
        self.scheduler.end_session(key)
    }

    /// Time goes on between two steps.
    pub(crate) fn tick(&mut self) {
        let now_ms = self.began.elapsed().as_millis() as u64;
        self.scheduler.set_now(now_ms);
    }
}
