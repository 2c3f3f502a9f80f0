//! The threads that look after tables which were started together, for as long as one of them is
//! served.

use std::sync::Arc;

use super::cache_refresh::CacheRefresh;
use super::ticker::Ticker;

pub struct TableUpkeep {
    /// First, so that they end before what they use.
    _tickers: Vec<Ticker>,
    refresh: Arc<CacheRefresh>,
}

impl TableUpkeep {
    pub fn new(tickers: Vec<Ticker>, refresh: Arc<CacheRefresh>) -> Self {
        TableUpkeep { _tickers: tickers, refresh }
    }

    pub fn refresh(&self) -> &CacheRefresh {
        &self.refresh
    }
}
