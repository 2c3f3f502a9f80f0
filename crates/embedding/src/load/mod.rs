//! Tables from the files of a trained model, into the levels.

mod file_version;
mod load_error;
mod load_progress;
mod load_table;
mod local_file;
mod objects;
mod sparse_folder;
mod stored_file;
mod table_version;

pub(crate) use file_version::FileVersion;
pub use load_error::LoadError;
pub use load_progress::LoadProgress;
pub(crate) use load_table::load_version;
pub use load_table::{LoadOutcome, load_table};
pub use local_file::LocalFile;
pub use objects::{ObjectFile, ObjectSource, ObjectSourceConfig};
pub use sparse_folder::{SparseBatch, SparseFolder};
pub use stored_file::StoredFile;
pub use table_version::{VersionStamp, content_hash};
