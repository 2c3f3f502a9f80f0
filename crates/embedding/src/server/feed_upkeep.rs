//! Watches how far updates have come, on a thread of its own, and does what follows from it.
//!
//! Tables are said to lag while their updates have not all come. When those since a table was
//! loaded are committed, its record says so. Hot caches are walked after updates: a row may have
//! been fetched from a level before its update reached it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_tiers::TierError;

use super::cache_refresh::CacheRefresh;
use super::due_walks::DueWalks;
use super::fed_table::FedTable;
use super::ticker::{Tick, Ticker};
use crate::row_database::RowDatabase;
use crate::table_tag::TableTag;

pub struct FeedUpkeep {
    pub tables: Vec<Arc<FedTable>>,
    pub refresh: Arc<CacheRefresh>,
    pub database: Option<Arc<dyn RowDatabase>>,
}

const INTERVAL: Duration = Duration::from_millis(200);

impl FeedUpkeep {
    pub fn start(self) -> std::io::Result<Ticker> {
        let shares_redis = self.tables.iter().any(|fed| fed.is_shared);
        let mut walks = DueWalks::new(shares_redis, Instant::now());
        Ticker::start("feed-upkeep", move |_| {
            for fed in &self.tables {
                if let Some(table) = fed.table.upgrade() {
                    table.set_lags(!fed.is_at_end());
                }
            }
            self.note_replayed();
            if walks.is_due(self.changed_rows(), Instant::now()) {
                self.refresh.request();
            }
            Tick::After(INTERVAL)
        })
    }

    /// Changes whenever rows have.
    fn changed_rows(&self) -> u64 {
        let updated = |fed: &Arc<FedTable>| Some(fed.table.upgrade()?.counters().updated);
        self.tables.iter().filter_map(updated).sum()
    }

    fn note_replayed(&self) {
        let Some(database) = &self.database else { return };
        for fed in &self.tables {
            let Some(storage) = &fed.storage else { continue };
            for (topic, consumer) in fed.unreplayed() {
                // Until where it began is committed, a restart would read from an older offset.
                if consumer.applied_until.is_none() || consumer.commits == 0 {
                    continue;
                }
                let note = || note(&**database, storage, &fed.spec.tag, &topic);
                match fed.while_living(note) {
                    None => {}
                    Some(Ok(())) => fed.set_replayed(&topic),
                    Some(Err(error)) => {
                        tracing::debug!("the record of {storage} is written later: {error}");
                    }
                }
            }
        }
    }
}

fn note(
    database: &dyn RowDatabase,
    storage: &TableTag,
    tag: &TableTag,
    topic: &str,
) -> Result<(), TierError> {
    let Some(mut record) = database.record(storage.as_str())? else { return Ok(()) };
    record.set_replayed(tag, topic);
    database.write_record(storage.as_str(), &record)
}
