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

/// Objects of one list.
const FILES_MOST: usize = 100_000;

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

    /// Paths of all objects below a URL, from there on, in their order.
    pub fn list_files(&self, url: &str) -> io::Result<Vec<String>> {
        let url = url.trim_end_matches('/');
        let (bucket, folder) = match url.matches('/').count() {
            // A bucket without a path.
            2 => (ObjectUrl::parse(&format!("{url}/any"))?.bucket.to_owned(), None),
            _ => {
                let ObjectUrl { bucket, path } = ObjectUrl::parse(url)?;
                (bucket.to_owned(), Some(path))
            }
        };
        let found = self.bucket(&bucket)?.list(folder.as_ref(), FILES_MOST)?;
        if found.len() > FILES_MOST {
            let text = format!("{url} has more than {FILES_MOST} objects; name a folder of it");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let start = folder.map_or(0, |folder| folder.as_ref().len() + 1);
        let paths = found.iter().filter_map(|path| path.as_ref().get(start..));
        let mut paths: Vec<String> = paths.map(str::to_owned).collect();
        paths.sort();
        Ok(paths)
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
