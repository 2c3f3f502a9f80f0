//! A bucket as calls that block see it, with a thread of its own for its connections.
//!
//! Calls may not be made from a thread that runs async tasks.

use std::future::Future;
use std::io;
use std::ops::Range;

use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig};
use tokio::runtime::Runtime;
use tokio_rustls::rustls::crypto::ring;

use super::object_fault::{changed, is_answer, object_fault};
use super::object_source_config::{ObjectSourceConfig, setting_key};

pub(super) struct ObjectBucket {
    store: AmazonS3,
    advice: &'static str,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

const LOGIN_ADVICE: &str = "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, \
                            and that they may s3:GetObject and s3:ListBucket";
const NO_LOGIN_ADVICE: &str = "no AWS_ACCESS_KEY_ID is set, so the machine's role was asked for; \
                               set it with AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a \
                               public bucket";
const PUBLIC_ADVICE: &str = "AWS_SKIP_SIGNATURE is set, so the bucket must be public";

impl ObjectBucket {
    /// Connects to nothing yet.
    pub(super) fn new(name: &str, config: &ObjectSourceConfig) -> io::Result<Self> {
        // The client takes the process's choice and panics where there is none; who chose before
        // is right.
        let _ = ring::default_provider().install_default();
        let builder = settings(config)?.with_bucket_name(name).with_retry(RetryConfig {
            max_retries: config.retries,
            retry_timeout: config.retry_time,
            ..RetryConfig::default()
        });
        let has = |key: AmazonS3ConfigKey| builder.get_config_value(&key);
        let is_set = |key| has(key).is_some_and(|value| is_yes(&value));
        let endpoint = has(AmazonS3ConfigKey::S3Endpoint).or(has(AmazonS3ConfigKey::Endpoint));
        let endpoint = endpoint.unwrap_or_default();
        if is_set(AmazonS3ConfigKey::VirtualHostedStyleRequest) {
            check_host(&endpoint, name)?;
        }
        let advice = match has(AmazonS3ConfigKey::AccessKeyId) {
            _ if is_set(AmazonS3ConfigKey::SkipSignature) => PUBLIC_ADVICE,
            Some(_) => LOGIN_ADVICE,
            None => NO_LOGIN_ADVICE,
        };
        let builder = match endpoint.starts_with("http://") {
            true => builder.with_allow_http(true),
            false => builder,
        };
        let store = builder.build().map_err(|error| object_fault(&error, advice))?;
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).thread_name("object-store").enable_all().build()?;
        Ok(ObjectBucket { store, advice, runtime: Some(runtime) })
    }

    /// What an object is like.
    pub(super) fn head(&self, path: &Path) -> io::Result<ObjectMeta> {
        self.block_on(async {
            let error = match self.store.head(path).await {
                Ok(meta) => return Ok(meta),
                Err(error) => error,
            };
            if !is_answer(&error) {
                return Err(error);
            }
            // The answer to a question for the head has no body to say why.
            let first_byte = GetOptions { range: Some((0..1).into()), ..GetOptions::default() };
            Err(self.store.get_opts(path, first_byte).await.err().unwrap_or(error))
        })
        .map_err(|error| object_fault(&error, self.advice))
    }

    /// Objects in a folder and in folders of it; ends after one more than `most`.
    pub(super) fn list(&self, folder: Option<&Path>, most: usize) -> io::Result<Vec<Path>> {
        self.block_on(async {
            let found = self.store.list(folder).map_ok(|object| object.location);
            found.take(most.saturating_add(1)).try_collect().await
        })
        .map_err(|error| object_fault(&error, self.advice))
    }

    /// Puts a part of the object into `to`, if it is still the one with that tag.
    pub(super) fn read(
        &self,
        path: &Path,
        e_tag: &str,
        range: Range<u64>,
        to: &mut Vec<u8>,
    ) -> io::Result<()> {
        to.clear();
        let wanted = (range.end - range.start) as usize;
        to.reserve_exact(wanted);
        let options = GetOptions {
            if_match: Some(e_tag.to_owned()),
            range: Some(range.into()),
            ..GetOptions::default()
        };
        let fault = |error: Error| object_fault(&error, self.advice);
        self.block_on(async {
            let answer = self.store.get_opts(path, options).await.map_err(fault)?;
            // Not every server knows the condition.
            if answer.meta.e_tag.as_deref() != Some(e_tag) {
                return Err(changed());
            }
            let mut pieces = answer.into_stream();
            while let Some(piece) = pieces.try_next().await.map_err(fault)? {
                to.extend_from_slice(&piece[..piece.len().min(wanted + 1 - to.len())]);
                if to.len() > wanted {
                    break;
                }
            }
            match to.len() == wanted {
                true => Ok(()),
                false => Err(io::Error::other(format!(
                    "the object store sent {} bytes and {wanted} were asked for; load again",
                    to.len()
                ))),
            }
        })
    }

    fn block_on<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime.as_ref().expect("there until it is dropped").block_on(call)
    }
}

impl Drop for ObjectBucket {
    /// Without waiting for connections.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn settings(config: &ObjectSourceConfig) -> io::Result<AmazonS3Builder> {
    let mut builder = AmazonS3Builder::new();
    for (name, value) in &config.settings {
        let key = setting_key(name).ok_or_else(|| {
            let text = format!("{name} is no setting of object stores; take it away");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        builder = builder.with_config(key, value);
    }
    Ok(builder)
}

/// As `object_store` reads it.
fn is_yes(value: &str) -> bool {
    ["1", "true", "on", "yes", "y"].contains(&value.to_ascii_lowercase().as_str())
}

/// Then requests go to the endpoint as it is, so that of another bucket it would be the wrong one.
fn check_host(endpoint: &str, bucket: &str) -> io::Result<()> {
    let host = endpoint.split_once("://").map_or(endpoint, |(_, host)| host);
    let is_of_bucket = host.strip_prefix(bucket).is_some_and(|rest| rest.starts_with('.'));
    if endpoint.is_empty() || is_of_bucket {
        return Ok(());
    }
    let text = format!(
        "with AWS_VIRTUAL_HOSTED_STYLE_REQUEST the host of AWS_ENDPOINT_URL must begin with \
         {bucket}. (with a dot); name it, or leave the style away"
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_act_are_refused() {
        let check = |settings: &[(&str, &str)], want: &str| {
            let owned = settings.iter().map(|(name, value)| (name.to_string(), value.to_string()));
            let bucket = ObjectBucket::new("models", &ObjectSourceConfig::new(owned.collect()));
            let error = bucket.err().map(|error| error.to_string()).unwrap_or_default();
            let is_right = if want.is_empty() { error.is_empty() } else { error.contains(want) };
            assert!(is_right, "{settings:?}: {error}");
        };
        let styled = |endpoint| [("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true"), endpoint];
        check(&[], "");
        check(&[("AWS_REGIO", "x")], "AWS_REGIO is no setting");
        check(&[("AWS_SKIP_SIGNATURE", "perhaps")], "perhaps");
        check(&[("AWS_ACCESS_KEY_ID", "hidden")], "AWS_REGION");
        check(&styled(("AWS_ENDPOINT_URL", "http://models.host:90")), "");
        check(&styled(("AWS_REGION", "eu-west-1")), "");
        check(&styled(("AWS_ENDPOINT_URL", "http://host:90")), "must begin with models.");
        let other = ("AWS_ENDPOINT_URL", "https://models2.host");
        check(&[("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "Yes"), other], "must begin with models.");
        check(&[("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "0"), other], "");
    }
}
