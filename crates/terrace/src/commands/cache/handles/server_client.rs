//! A running server, asked over HTTP. What it refuses becomes an error in its own words.

use std::io::Read;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body, SendBody};

/// Of a response that is one JSON object: a list of many handles takes some space.
const MAX_BYTES: u64 = 64 << 20;

#[derive(Args, Debug)]
pub struct ServerArgs {
    /// The running server.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8000")]
    pub url: String,

    /// API key of the server, if it needs one. A handle belongs to the key it was made with.
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
}

pub struct ServerClient<'a> {
    agent: Agent,
    server: &'a ServerArgs,
}

#[derive(Deserialize)]
struct Refusal {
    error: RefusalBody,
}

#[derive(Deserialize)]
struct RefusalBody {
    message: String,
}

impl<'a> ServerClient<'a> {
    pub fn new(server: &'a ServerArgs) -> Self {
        // Refusals are read for their messages.
        let config = Agent::config_builder().http_status_as_error(false).build();
        Self { agent: config.into(), server }
    }

    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        json_of(self.download(path)?)
    }

    pub fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let request = self.agent.delete(self.address(path));
        let request = self.key().into_iter().fold(request, |request, key| request.header(KEY, key));
        json_of(self.checked(request.call())?)
    }

    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T> {
        let request = self.agent.post(self.address(path)).content_type("application/json");
        let request = self.key().into_iter().fold(request, |request, key| request.header(KEY, key));
        json_of(self.checked(request.send(body.to_string()))?)
    }

    /// Sends all of `source`, which has so many bytes.
    pub fn upload<T: DeserializeOwned>(
        &self,
        path: &str,
        source: impl Read + 'static,
        bytes: u64,
    ) -> Result<T> {
        let request = self.agent.post(self.address(path)).content_type("application/octet-stream");
        let request = request.header("content-length", bytes);
        let request = self.key().into_iter().fold(request, |request, key| request.header(KEY, key));
        json_of(self.checked(request.send(SendBody::from_owned_reader(source)))?)
    }

    /// The response's body, to be read as it comes.
    pub fn download(&self, path: &str) -> Result<Body> {
        let request = self.agent.get(self.address(path));
        let request = self.key().into_iter().fold(request, |request, key| request.header(KEY, key));
        self.checked(request.call())
    }

    fn checked(&self, response: Result<Response<Body>, ureq::Error>) -> Result<Body> {
        let url = &self.server.url;
        let (head, mut body) = match response {
            Ok(response) => response.into_parts(),
            Err(ureq::Error::ConnectionFailed | ureq::Error::HostNotFound) => {
                bail!("no server answers at {url}; {START}")
            }
            Err(ureq::Error::Io(error)) => {
                return Err(anyhow!(error).context(format!("cannot talk to {url}; {START}")));
            }
            Err(error) => return Err(anyhow!(error).context(format!("cannot talk to {url}"))),
        };
        if head.status.is_success() {
            return Ok(body);
        }
        let text = body.with_config().limit(MAX_BYTES).read_to_string().unwrap_or_default();
        let status = head.status.as_u16();
        match serde_json::from_str::<Refusal>(&text) {
            Ok(_) if head.status == StatusCode::UNAUTHORIZED => {
                bail!("{url} takes requests with one of its keys only; give --api-key KEY")
            }
            Ok(Refusal { error }) => bail!("{} (status {status})", error.message),
            Err(_) => bail!("{url} answered with status {status}; is it a terrace server?"),
        }
    }

    fn address(&self, path: &str) -> String {
        format!("{}{path}", self.server.url.trim_end_matches('/'))
    }

    fn key(&self) -> Option<String> {
        self.server.api_key.as_ref().map(|key| format!("Bearer {key}"))
    }
}

const KEY: &str = "authorization";
const START: &str = "start one with `terrace serve`, or name another with --url";

fn json_of<T: DeserializeOwned>(mut body: Body) -> Result<T> {
    let text = body.with_config().limit(MAX_BYTES).read_to_string()?;
    serde_json::from_str(&text).context("the server's response is not about handles")
}

/// A name as one segment of a path, or as a value of a query.
pub fn escaped(name: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    name.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_one_segment() {
        assert_eq!(escaped("a-b_c.9~"), "a-b_c.9~");
        assert_eq!(escaped("a/b c?d%é"), "a%2Fb%20c%3Fd%25%C3%A9");
    }
}
