//! How object stores are reached, by the names that AWS's tools have for it.
//!
//! It holds secrets, and has no `Debug`.

use std::ffi::OsString;
use std::time::Duration;

use object_store::aws::AmazonS3ConfigKey;

pub struct ObjectSourceConfig {
    /// Such as `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`,
    /// `AWS_ENDPOINT_URL`, `AWS_SKIP_SIGNATURE` for public buckets, `AWS_TIMEOUT` for one request
    /// and `AWS_CONNECT_TIMEOUT`, with a unit. Without a key the machine's role is asked for one;
    /// profiles in files are not read.
    pub settings: Vec<(String, String)>,
    /// Of a request that failed in a way that may pass: no connection, no answer in time, a
    /// connection that broke, an error of the server.
    pub retries: usize,
    /// Since a request was first sent; no retry begins later.
    pub retry_time: Duration,
}

impl ObjectSourceConfig {
    /// As many retries as `object_store` makes unless asked otherwise, with pauses that double from
    /// 0.1 to 15 seconds. One request takes 30 seconds at most, connecting 5.
    pub fn new(settings: Vec<(String, String)>) -> Self {
        ObjectSourceConfig { settings, retries: 10, retry_time: Duration::from_secs(180) }
    }

    /// The only place that reads the environment. Other tools' variables that begin with `AWS_`
    /// stay aside.
    pub fn from_env() -> Self {
        ObjectSourceConfig::new(known_variables(std::env::vars_os()))
    }
}

/// Empty ones are as if they were not set, as AWS's tools have it.
fn known_variables(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    let known = |(name, value): (OsString, OsString)| {
        let name = name.into_string().ok().filter(|name| name.starts_with("AWS_"))?;
        setting_key(&name)?;
        let value = value.to_string_lossy().into_owned();
        (!value.is_empty()).then_some((name, value))
    };
    variables.filter_map(known).collect()
}

/// `None` for names that mean nothing here.
pub(super) fn setting_key(name: &str) -> Option<AmazonS3ConfigKey> {
    name.to_ascii_lowercase().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_object_stores_are_taken_from_the_environment() {
        let variables = [
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_SESSION_TOKEN", ""),
            ("AWS_DEFAULT_REGION", "eu-west-1"),
            ("AWS_ENDPOINT_URL", "http://localhost:9000"),
            ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "true"),
            ("AWS_TIMEOUT", "60s"),
            ("AWS_PROFILE", "work"),
            ("AWS_PAGER", ""),
            ("REGION", "us-east-1"),
            ("PATH", "/bin"),
        ];
        let found =
            known_variables(variables.map(|(name, value)| (name.into(), value.into())).into_iter());
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "AWS_ACCESS_KEY_ID",
                "AWS_SECRET_ACCESS_KEY",
                "AWS_DEFAULT_REGION",
                "AWS_ENDPOINT_URL",
                "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
                "AWS_TIMEOUT",
            ]
        );
    }
}
