//! How a database is opened. RocksDB reads it as a text of options, which is the same in all of its
//! versions.

use crate::rocks_error::RocksError;

/// Tuned for looking keys up: a Bloom filter of 10 bits a key, hashed blocks and memtables, level
/// compaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RocksOptions {
    /// Nothing is written and no lock is taken: several processes may read one folder.
    pub read_only: bool,
    /// For flushes and compactions, at least 1.
    pub num_threads: u32,
    /// Of blocks in memory, shared by all families.
    pub block_cache_bytes: usize,
    /// Of all families together before they are flushed; 0 for no limit but RocksDB's 128 MiB for
    /// each family.
    pub write_buffer_bytes: usize,
    /// `None`: all are kept open, the fastest; each takes memory for its index and its filter.
    pub max_open_files: Option<u32>,
    /// Indices and filters take room in the block cache instead of memory of their own. Bounds the
    /// memory, and makes a small cache slow.
    pub cache_index_and_filter_blocks: bool,
}

/// RocksDB writes a line for each flush and statistics every ten minutes; a server runs for months.
const LOG_FILE_BYTES: usize = 16 << 20;
const LOG_FILES: usize = 4;
/// Errors come to whoever asked. On a full disk this log cannot be written either, and builds of
/// RocksDB with assertions, as Debian's, end the process at the second try.
const LOG_LEVEL: &str = "FATAL_LEVEL";

impl Default for RocksOptions {
    fn default() -> Self {
        RocksOptions {
            read_only: false,
            num_threads: 16,
            block_cache_bytes: 8 << 20,
            // What RocksDB would let one family take.
            write_buffer_bytes: 128 << 20,
            max_open_files: None,
            cache_index_and_filter_blocks: false,
        }
    }
}

impl RocksOptions {
    /// For RocksDB. With `manual_wal_flush` the log of writes stays in memory until it is flushed.
    pub(crate) fn text(&self, manual_wal_flush: bool) -> Result<String, RocksError> {
        let RocksOptions { read_only, num_threads, block_cache_bytes, .. } = self;
        if *num_threads == 0 {
            return Err(RocksError::invalid("cannot open", "num_threads is 0; give 1 or more"));
        }
        let max_open_files = self.max_open_files.map_or(-1, i64::from);
        // The numbers of blocks and memtables are those of RocksDB's own tuning for point lookups.
        let table = format!(
            "block_cache={block_cache_bytes};filter_policy=bloomfilter:10:false;\
             data_block_index_type=kDataBlockBinaryAndHash;data_block_hash_table_util_ratio=0.75;\
             cache_index_and_filter_blocks={}",
            self.cache_index_and_filter_blocks
        );
        Ok(format!(
            "create_if_missing={};max_background_jobs={num_threads};db_write_buffer_size={};\
             max_open_files={max_open_files};manual_wal_flush={manual_wal_flush};\
             max_log_file_size={LOG_FILE_BYTES};keep_log_file_num={LOG_FILES};\
             info_log_level={LOG_LEVEL};\
             compaction_style=kCompactionStyleLevel;memtable_whole_key_filtering=true;\
             memtable_prefix_bloom_size_ratio=0.02;block_based_table_factory={{{table}}}",
            !read_only, self.write_buffer_bytes
        ))
    }
}
