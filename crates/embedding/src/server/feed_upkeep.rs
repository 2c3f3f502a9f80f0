//! Watches how far updates have come, on a thread of its own, and does what follows from it.
//!
//! Tables are said to lag while their updates have not all come. When all have come, records in the
//! database say so, and hot caches are walked: a row may have been fetched from a level before its
//! update reached it.

use std::sync::Arc;
use std::time::Duration;

use super::cache_refresh::CacheRefresh;
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
        let mut refreshed_rows = 0;
        Ticker::start("feed-upkeep", move |_| {
            let (own, shared) = (self.feeds.own(), self.feeds.shared());
            let is_own_at_end = is_at_end(&own);
            self.tables.iter().for_each(|table| table.set_lags(!is_own_at_end));
            if is_own_at_end {
                self.note_replayed();
            }
            let rows = own.rows + shared.as_ref().map_or(0, |shared| shared.rows);
            if rows != refreshed_rows && is_own_at_end && shared.is_none_or(|it| is_at_end(&it)) {
                refreshed_rows = rows;
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
