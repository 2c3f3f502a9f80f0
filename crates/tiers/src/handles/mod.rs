//! Named KV caches as files: what a request has computed, kept over restarts and sent to others.

mod direct_file;
mod disk_handles;
mod handle_books;
mod handle_catalog;
mod handle_draft;
mod handle_error;
mod handle_executor;
mod handle_file;
mod handle_folder;
mod handle_id;
mod handle_info;
mod handle_labels;
mod handle_manifest;
mod handle_reader;
mod handle_store;
mod handle_threads;
mod handle_work;
mod handle_writer;
mod hex;
mod stored_reader;
mod stored_writer;

pub use disk_handles::DiskHandles;
pub use handle_draft::HandleDraft;
pub use handle_error::HandleError;
pub use handle_executor::HandleExecutor;
pub use handle_file::HandleFault;
pub use handle_id::HandleId;
pub use handle_info::HandleInfo;
pub use handle_manifest::{HandleManifest, ManifestFault, TableManifest};
pub use handle_reader::HandleReader;
pub use handle_store::HandleStore;
pub use handle_threads::HandleThreads;
pub use handle_work::{HandleDone, HandleTask, HandleWork};
pub use handle_writer::HandleWriter;
pub use stored_reader::StoredReader;
