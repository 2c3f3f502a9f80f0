//! What look-ups found.

/// Of one look-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupStats {
    pub keys: usize,
    /// Different ones among them.
    pub unique: usize,
    /// Of these, how many the hot cache had.
    pub hits: usize,
    /// Of these, how many got the default value because no level has them.
    pub defaults: usize,
    /// Of these, how many got the default value for now: their rows are on their way.
    pub deferred: usize,
    /// Of the defaults, how many a level that failed may have.
    pub unanswered: usize,
}

impl LookupStats {
    /// Of a look-up that is done in parts.
    pub(super) fn add(&mut self, part: &LookupStats) {
        self.keys += part.keys;
        self.unique += part.unique;
        self.hits += part.hits;
        self.defaults += part.defaults;
        self.deferred += part.deferred;
        self.unanswered += part.unanswered;
    }
}

/// Of a table since the process started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounters {
    pub lookups: u64,
    pub keys: u64,
    /// Different ones within their look-ups.
    pub unique: u64,
    /// Of the unique ones, how many hot caches had.
    pub hits: u64,
    pub defaults: u64,
    pub deferred: u64,
    pub unanswered: u64,
    pub lookup_us: u64,
    /// Look-ups that fetched missing rows before they returned.
    pub synchronous: u64,
    /// Fills that were left out because too many were waiting.
    pub dropped_fills: u64,
    /// Rows that updates have brought.
    pub updated: u64,
}

impl TableCounters {
    pub(super) fn add(&mut self, stats: &LookupStats, spent_us: u64) {
        self.lookups += 1;
        self.keys += stats.keys as u64;
        self.unique += stats.unique as u64;
        self.hits += stats.hits as u64;
        self.defaults += stats.defaults as u64;
        self.deferred += stats.deferred as u64;
        self.unanswered += stats.unanswered as u64;
        self.lookup_us += spent_us;
        let has_missed = stats.hits < stats.unique;
        self.synchronous += u64::from(has_missed && stats.deferred == 0);
    }
}
