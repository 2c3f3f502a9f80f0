//! An OpenAI-compatible server to send requests to: where it listens, and its model's name.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result, bail};
use hyper::Uri;
use serde::Deserialize;

use super::http_connection;

#[derive(Clone, Debug)]
pub struct Service {
    pub address: SocketAddr,
    /// What stands before `/completions` in its paths.
    pub base: String,
    pub model: String,
}

impl Service {
    /// Asks the server at `http://HOST[:PORT][/v1]` for its models; the first is measured.
    pub async fn find(url: &str) -> Result<Self> {
        let (address, base) = locate(url)?;
        let models = http_connection::get(address, &format!("{base}/models")).await?;
        let ModelList { data } = serde_json::from_slice(&models)
            .with_context(|| format!("{url} did not list its models"))?;
        let first = data.into_iter().next();
        let ListedModel { id: model } = first.with_context(|| format!("{url} serves no model"))?;
        Ok(Service { address, base, model })
    }

    pub fn completions_path(&self) -> String {
        format!("{}/completions", self.base)
    }
}

fn locate(url: &str) -> Result<(SocketAddr, String)> {
    let uri: Uri = url.parse().with_context(|| format!("{url} is no address"))?;
    let (Some("http"), Some(host)) = (uri.scheme_str(), uri.host()) else {
        bail!("--url {url}: give http://HOST:PORT; other schemes cannot be measured");
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let mut found = (host, uri.port_u16().unwrap_or(80))
        .to_socket_addrs()
        .with_context(|| format!("cannot find the host of {url}"))?;
    let address = found.next().with_context(|| format!("{url} has no address"))?;
    let base = uri.path().trim_end_matches('/');
    let base = if base.ends_with("/v1") { base.to_owned() } else { format!("{base}/v1") };
    Ok((address, base))
}

#[derive(Deserialize)]
struct ModelList {
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, address: &str, base: &str) {
        let found = locate(url).expect("an address");
        assert_eq!((found.0.to_string().as_str(), found.1.as_str()), (address, base));
    }

    #[test]
    fn an_address_may_end_where_it_likes() {
        check("http://127.0.0.1:8080", "127.0.0.1:8080", "/v1");
        check("http://127.0.0.1:8080/", "127.0.0.1:8080", "/v1");
        check("http://127.0.0.1:8080/v1/", "127.0.0.1:8080", "/v1");
        check("http://127.0.0.1/models/a", "127.0.0.1:80", "/models/a/v1");
        check("http://[::1]:81", "[::1]:81", "/v1");
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for url in ["https://127.0.0.1", "127.0.0.1:8080", "/v1", "http://", ""] {
            assert!(locate(url).is_err(), "{url}");
        }
    }
}
