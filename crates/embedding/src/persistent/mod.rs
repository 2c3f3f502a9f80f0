//! The level that has all rows of all tables, on a local disk, and keeps them over restarts.
//!
//! There are two such databases: [`RocksDatabase`], whose folders are HugeCTR's too, and
//! [`EmbeddedDatabase`], which needs no library. Neither opens a folder of the other; [`migrate`]
//! copies tables.

mod database_folder;
mod embedded_database;
mod embedded_fault;
mod embedded_folder;
mod embedded_tables;
mod folder_fault;
mod ingest_folder;
mod key_code;
mod key_value_database;
mod key_value_db;
mod key_value_rows;
mod lookup_parts;
mod migrate;
mod open_persistent;
mod ordered_rows;
mod record_text;
mod rocks_database;
mod rocks_fault;
mod rocks_tables;
mod row_bytes;
mod wanted_keys;

pub use database_folder::DatabaseFolder;
pub use embedded_database::{EmbeddedDatabase, EmbeddedDatabaseConfig};
pub use migrate::{migrate, spec_of};
pub use open_persistent::open_persistent;
pub use rocks_database::{RocksDatabase, RocksDatabaseConfig};
