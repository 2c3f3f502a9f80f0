//! Named KV caches as files: what a request has computed, kept over restarts and sent to others.

mod handle_file;
mod handle_id;
mod handle_manifest;
mod handle_reader;
mod handle_writer;
mod hex;

pub use handle_file::HandleFault;
pub use handle_id::HandleId;
pub use handle_manifest::{HandleManifest, ManifestFault, TableManifest};
pub use handle_reader::HandleReader;
pub use handle_writer::HandleWriter;
