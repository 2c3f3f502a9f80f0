//! What a write survives once it has returned.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A killed process from the next [`flush_wal`](crate::RocksDb::flush_wal) on, a power cut from
    /// the next [`sync_wal`](crate::RocksDb::sync_wal) on.
    Wal,
    /// A power cut, with all writes before it.
    SyncedWal,
    /// Nothing but closing the database, until its family is flushed. The fastest: for what can be
    /// filled again.
    None,
}
