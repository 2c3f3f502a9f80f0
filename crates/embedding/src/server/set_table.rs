//! A table of a set that starts.

use std::sync::Arc;

use super::fed_table::FedTable;
use super::live_table::LiveTable;
use super::starting_table::StartingTable;
use crate::lookup::ServedTable;

pub enum SetTable {
    /// Somebody serves it already.
    Living(Arc<LiveTable>),
    Starting(Box<StartingTable>),
}

impl SetTable {
    pub fn table(&self) -> &Arc<ServedTable> {
        match self {
            SetTable::Living(live) => live.table(),
            SetTable::Starting(starting) => starting.table(),
        }
    }

    pub fn fed(&self) -> &Arc<FedTable> {
        match self {
            SetTable::Living(live) => live.fed(),
            SetTable::Starting(starting) => starting.fed(),
        }
    }
}
