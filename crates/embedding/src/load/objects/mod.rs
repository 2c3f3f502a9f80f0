//! Files in object stores that speak S3's protocol.

mod object_bucket;
mod object_fault;
mod object_file;
mod object_source;
mod object_source_config;
mod object_url;

pub use object_file::ObjectFile;
pub use object_source::ObjectSource;
pub use object_source_config::ObjectSourceConfig;
