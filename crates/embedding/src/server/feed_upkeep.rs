//! Watches how far updates have come, on a thread of its own, and does what follows from it.
//!
//! Tables are said to lag while their updates have not all come. When those since a table was
//! loaded are committed, its record says so. Hot caches are walked after updates: a row may have
//! been fetched from a level before its update reached it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cache_refresh::CacheRefresh;
use super::due_walks::DueWalks;
use super::ticker::{Tick, Ticker};
use super::update_feeds::{UpdateFeeds, is_at_end};
use crate::lookup::ServedTable;
use crate::row_database::RowDatabase;

pub struct FeedUpkeep {
    pub feeds: Arc<UpdateFeeds>,
    pub refresh: Arc<CacheRefresh>,
    pub tables: Vec<Arc<ServedTable>>,
    pub database: Option<Arc<dyn RowDatabase>>,
    /// Tags of tables whose updates since they were loaded have not all come.
    pub unreplayed: Vec<String>,
}

const INTERVAL: Duration = Duration::from_millis(200);

impl FeedUpkeep {
    pub fn start(mut self) -> std::io::Result<Ticker> {
        let mut walks = DueWalks::new(self.feeds.shared().is_some(), Instant::now());
        Ticker::start("feed-upkeep", move |_| {
            let (own, shared) = (self.feeds.own(), self.feeds.shared());
            let is_own_at_end = is_at_end(&own);
            self.tables.iter().for_each(|table| table.set_lags(!is_own_at_end));
            // Until where it began is committed, a restart would read from an older offset.
            if own.applied_until.is_some() && own.commits > 0 {
                self.note_replayed();
            }
            let rows = own.rows + shared.map_or(0, |shared| shared.rows);
            if walks.is_due(rows, Instant::now()) {
                self.refresh.request();
            }
            Tick::After(INTERVAL)
        })
    }

    fn note_replayed(&mut self) {
        let Some(database) = &self.database else { return };
        self.unreplayed.retain(|tag| {
            let noted = database.record(tag).and_then(|record| match record {
                Some(mut record) => {
                    record.is_replayed = true;
                    database.write_record(tag, &record)
                }
                None => Ok(()),
            });
            if let Err(error) = &noted {
                tracing::debug!("the record of {tag} is written later: {error}");
            }
            noted.is_err()
        });
    }
}
