//! RocksDB through its C API, loaded when it is asked for: one binary runs with and without it.
//!
//! [`RocksLibrary`] is the loaded library, [`RocksDb`] an open database, [`Family`] one of its
//! column families, by which keys are read. Nothing here knows what keys and values mean.
//!
//! What always holds: every object of the library is destroyed once, families and iterators before
//! their database; every text and value that it hands out is given back to it.

mod c_bytes;
mod db_borrow;
mod durability;
mod family;
mod family_handle;
mod family_iterator;
mod find_library;
mod functions;
mod ingest_files;
mod multi_get;
mod objects;
mod open_db;
mod owned_object;
mod rocks_db;
mod rocks_error;
mod rocks_library;
mod rocks_options;
mod rocksdb_folder;
mod sst_writer;
mod write_batch;

pub use durability::Durability;
pub use family::Family;
pub use family_iterator::{FamilyIterator, KeyValue};
pub use ingest_files::IngestFiles;
pub use rocks_db::RocksDb;
pub use rocks_error::RocksError;
pub use rocks_library::RocksLibrary;
pub use rocks_options::RocksOptions;
pub use rocksdb_folder::is_rocksdb_folder;
pub use sst_writer::SstWriter;
pub use write_batch::WriteBatch;
