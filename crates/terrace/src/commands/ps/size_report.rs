//! What `terrace ps size` prints.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use terrace_embedding::{LevelBytes, Place, PsConfig, TableSize};

use super::text_table::TextTable;
use crate::byte_size::ByteSize;

#[derive(Debug, Serialize)]
pub struct SizeReport {
    pub tables: Vec<TableSize>,
    pub totals: Totals,
    /// What else is to be known.
    pub notes: Vec<String>,
}

/// When every level is as full as it gets.
#[derive(Debug, Serialize)]
pub struct Totals {
    pub row_bytes: u64,
    /// Of hot caches, by the numbers of the configuration.
    pub device_bytes: BTreeMap<u32, u64>,
    /// Of the level in memory, and of hot caches that devices read there.
    pub host_bytes: u64,
    pub redis_bytes: u64,
    /// With the log of an embedded store.
    pub disk_bytes: u64,
}

impl SizeReport {
    pub fn new(config: &PsConfig, tables: Vec<TableSize>) -> Self {
        let mut device_bytes = BTreeMap::new();
        for cache in tables.iter().flat_map(|table| &table.caches) {
            *device_bytes.entry(cache.device).or_default() += cache.device_bytes;
        }
        let sum = |bytes: fn(&TableSize) -> u64| -> u64 { tables.iter().map(bytes).sum() };
        let totals = Totals {
            row_bytes: sum(|table| table.row_bytes),
            device_bytes,
            host_bytes: sum(TableSize::host_bytes_most),
            redis_bytes: sum(|table| most(table.redis)),
            disk_bytes: sum(|table| most(table.persistent)) + TableSize::log_bytes(config),
        };
        let notes = notes(config, &tables);
        SizeReport { tables, totals, notes }
    }
}

fn most(level: Option<LevelBytes>) -> u64 {
    level.map_or(0, |level| level.bytes_most)
}

fn notes(config: &PsConfig, tables: &[TableSize]) -> Vec<String> {
    let mut notes = Vec::new();
    for table in tables.iter().filter(|table| table.rows == 0) {
        notes.push(format!("{} has no files here, and counts as empty", table.tag));
    }
    let is_on_disk = |table: &&TableSize| table.place == Some(Place::Disk);
    if config.persistent.is_none()
        && let Some(table) = tables.iter().find(is_on_disk)
    {
        notes.push(format!(
            "{} fits neither on the device nor in memory, and there is no persistent_db: a server \
             would not start",
            table.tag
        ));
    }
    if config.update_source.is_some() {
        notes.push("keys that updates add are not counted".to_owned());
    }
    notes
}

fn size(bytes: u64) -> String {
    ByteSize(usize::try_from(bytes).unwrap_or(usize::MAX)).to_string()
}

/// "2.0 GiB (1.0 GiB)", the latter at the start where it is another.
fn of_level(level: Option<LevelBytes>) -> String {
    match level {
        None => "-".to_owned(),
        Some(level) if level.bytes_at_start == level.bytes_most => size(level.bytes_most),
        Some(level) => format!("{} ({})", size(level.bytes_most), size(level.bytes_at_start)),
    }
}

/// Of one device; those of a table are alike.
fn of_cache(table: &TableSize) -> String {
    match table.caches.first() {
        None => "-".to_owned(),
        Some(cache) if cache.host_bytes == 0 => size(cache.device_bytes),
        Some(cache) => format!("{} + {}", size(cache.device_bytes), size(cache.host_bytes)),
    }
}

fn of_place(place: Option<Place>) -> String {
    let place = match place {
        None => "configured",
        Some(Place::Device) => "device",
        Some(Place::Ram) => "ram",
        Some(Place::Disk) => "disk",
    };
    place.to_owned()
}

const TITLES: [&str; 9] =
    ["table", "placement", "keys", "dim", "rows", "cache", "ram", "redis", "disk"];

impl fmt::Display for SizeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = TextTable::new(TITLES);
        for it in &self.tables {
            table.push([
                it.tag.clone(),
                of_place(it.place),
                it.rows.to_string(),
                it.dim.to_string(),
                size(it.row_bytes),
                of_cache(it),
                of_level(it.ram),
                of_level(it.redis),
                of_level(it.persistent),
            ]);
        }
        let totals = &self.totals;
        writeln!(f, "{table}\n\nIn all, at most:")?;
        for (device, bytes) in &totals.device_bytes {
            writeln!(f, "  device {device}     {}", size(*bytes))?;
        }
        writeln!(f, "  host memory  {}", size(totals.host_bytes))?;
        writeln!(f, "  redis        {}", size(totals.redis_bytes))?;
        write!(f, "  disk         {}", size(totals.disk_bytes))?;
        self.notes.iter().try_for_each(|note| write!(f, "\nnote: {note}"))
    }
}
