//! What an error of RocksDB means for a level.

use terrace_rocksdb::RocksError;
use terrace_tiers::TierError;

pub fn rocks_fault(error: RocksError) -> TierError {
    let text = error.to_string();
    match error {
        // RocksDB takes no writes after one that failed, until it is opened anew.
        RocksError::DiskFull(_) => TierError::Full(format!("{text}, then restart")),
        RocksError::ReadOnly(_) => TierError::ReadOnly(text),
        RocksError::Corruption(_) | RocksError::InvalidArgument(_) => TierError::Protocol(text),
        RocksError::Locked(_)
        | RocksError::LibraryNotFound { .. }
        | RocksError::LibraryUnusable { .. }
        | RocksError::FunctionMissing { .. } => TierError::Unavailable(text),
        RocksError::Io(_) | RocksError::Other(_) => TierError::Io(text),
    }
}
