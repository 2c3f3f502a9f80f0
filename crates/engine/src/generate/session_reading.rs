//! What an engine reports of a session.

/// Which sessions are listed, by id.
#[derive(Clone, Debug)]
pub struct SessionQuery {
    pub owner: Option<usize>,
    /// Those after this id alone.
    pub after: Option<String>,
    pub most: usize,
}

/// A conversation whose pages are kept. Times are as of the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionReading {
    pub id: String,
    /// Of its last conversation, prompt and output.
    pub tokens: usize,
    /// Where the full pages of its last conversation are.
    pub pages: SessionPages,
    pub requests: u64,
    pub priority: u8,
    pub created_ms_ago: u64,
    pub used_ms_ago: u64,
    /// A request that runs puts it off.
    pub expires_in_ms: u64,
}

/// Each page counts once, at the fastest level that has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionPages {
    pub device: usize,
    pub host: usize,
    /// On disk or in Redis, as far as is known.
    pub lower: usize,
    /// Forgotten: they are computed again when they are needed.
    pub absent: usize,
}
