//! Memory of ids: embedding rows of items, actions and features, by table and id.
//!
//! A [`TableSet`] has the tables of a model where its ops compute. An id that a table has not got
//! takes the table's default row, and the look-up says so: whoever asks decides whether that is an
//! error.
//!
//! A [`PsConfig`] says where the rows of tables are that are too large for that, as users of
//! HugeCTR's parameter server have written it down; [`TagStyle`], [`PartitionRule`] and
//! [`KeyKind`] are the names and bytes that its databases have. New rows and new dense weights come
//! over Kafka: an [`UpdateConsumer`] gives them to an [`UpdateSink`], an [`UpdatePublisher`] sends
//! them.
//!
//! Before a server starts, a [`TableSize`] says what a table takes; [`TableDiff`] and
//! [`TableAudit`] compare versions of tables and what levels have of them.
#![forbid(unsafe_code)]

mod audit;
mod config;
mod embedding_table;
mod error;
mod feed;
mod hot_cache;
mod key_index;
mod key_kind;
mod levels;
mod load;
mod lookup;
mod partition;
mod persistent;
mod ram;
mod redis;
mod row_database;
mod row_store;
mod server;
mod table_record;
mod table_set;
mod table_spec;
mod table_tag;

pub use audit::{
    AuditStep, AuditedRows, FoundKeys, KeyDifference, RowComparison, RowDigests, TableAudit,
    TableDiff, TableFindings, compare_table,
};
pub use config::{
    BatchSizes, ConfigError, FusedTable, GpuCacheConfig, GpuCacheKind, KafkaConfig, LevelFill,
    ModelPath, ModelTables, NodeAddress, OverflowConfig, OverflowPolicy, Password,
    PersistentConfig, PersistentKind, Placement, Problem, PsConfig, RamLevelConfig,
    RedisLevelConfig, RequestTable, Surroundings, TableConfig, TlsConfig, UpdateFilters, Warning,
};
pub use embedding_table::EmbeddingTable;
pub use error::Error;
pub use feed::{
    ConsumerCounters, DeliveryFailure, DenseAssembler, DenseFault, DensePart, DenseProgress,
    DenseWeights, DenseWhole, DropReason, FeedError, FolderPublication, MessageFault, MessageRows,
    PartitionsRead, PublishError, RowUpdates, StartAt, TopicLag, TopicStart, TopicTable,
    UpdateConsumer, UpdateConsumerConfig, UpdateMessage, UpdatePublisher, UpdatePublisherConfig,
    UpdateSink,
};
pub use hot_cache::{CudaCache, HostCache, HotCache};
pub use key_index::KeyIndex;
pub use key_kind::{KeyError, KeyKind};
pub use levels::{
    Fetched, FillGate, FillTicket, Level, LevelConfig, LevelCounters, LevelKind, ReadThreads,
    TableLevels,
};
pub use load::{
    LoadError, LoadOutcome, LoadProgress, LocalFile, ObjectFile, ObjectSource, ObjectSourceConfig,
    SparseBatch, SparseFolder, StoredFile, VersionStamp, content_hash, load_table,
};
pub use lookup::{
    CacheHolds, CudaLookup, DeviceRows, FillThreads, HostRows, LookupPool, LookupStats,
    MissingRows, Prefetched, ServedTable, ServedTableConfig, TableCache, TableCacheConfig,
    TableCounters, UpdateError, UpdateScope,
};
pub use partition::PartitionRule;
pub use persistent::{
    DatabaseFolder, EmbeddedDatabase, EmbeddedDatabaseConfig, RocksDatabase, RocksDatabaseConfig,
    migrate, open_persistent,
};
pub use ram::{RamStore, RamStoreConfig};
pub use redis::{PartitionRun, RedisDatabase, RedisStore, Vouched};
pub use row_database::RowDatabase;
pub use row_store::{RowStore, ScannedRows};
pub use server::{
    CacheBytes, CacheRefresh, DatabaseOptions, DenseVersions, LevelBytes, NamedTable, OpenFolder,
    ParameterServer, Place, PlaceBudgets, PlacedTable, PreparedSet, RefreshPlan, ServedSets,
    SetOptions, SharedDatabases, StartError, StartOptions, StartProgress, TableFiles, TableName,
    TablePlan, TableSize, dense_topic, place,
};
pub use table_record::{TABLE_FORMAT, TableRecord};
pub use table_set::{FoundRow, Residence, TableId, TableIndex, TableSet};
pub use table_spec::TableSpec;
pub use table_tag::{TableTag, TagStyle, cluster_slot};
