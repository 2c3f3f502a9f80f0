//! Where files of `s3://` URLs come from: one set of logins and one endpoint, any buckets.
//!
//! It starts no thread and connects to nothing before the first file of a bucket is opened.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::object_bucket::ObjectBucket;
use super::object_file::ObjectFile;
use super::object_source_config::ObjectSourceConfig;
use super::object_url::ObjectUrl;

pub struct ObjectSource {
    config: ObjectSourceConfig,
    buckets: Mutex<HashMap<String, Arc<ObjectBucket>>>,
}

impl ObjectSource {
    pub fn new(config: ObjectSourceConfig) -> Self {
        ObjectSource { config, buckets: Mutex::default() }
    }

    /// Asks what the object is like; reads nothing of it. `NotFound` means that the store has no
    /// such object.
    pub fn open_file(&self, url: &str) -> io::Result<ObjectFile> {
        let ObjectUrl { bucket, path } = ObjectUrl::parse(url)?;
        ObjectFile::open(url, path, self.bucket(bucket)?)
    }

    fn bucket(&self, name: &str) -> io::Result<Arc<ObjectBucket>> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get(name) {
            return Ok(Arc::clone(bucket));
        }
        let bucket = Arc::new(ObjectBucket::new(name, &self.config)?);
        buckets.insert(name.to_owned(), Arc::clone(&bucket));
        Ok(bucket)
    }
}
