//! `terrace cache save`: computes a prompt's KV cache and keeps it under a name.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Map, Value, json};

use super::ROUTE;
use super::handle_shape::HandleShape;
use super::server_client::{ServerArgs, ServerClient};
use crate::time_span::TimeSpan;

/// Keep a prompt's KV cache by name, so that requests go on from it at once.
///
/// The server computes the prompt, writes what it computed to its disk tier (terrace serve
/// --kv-tier disk=FOLDER,SIZE) and answers when the bytes are durable. Without a disk tier the
/// handle is in memory alone, until the server stops.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  terrace cache save --prompt-file contract.txt --name contract
  terrace cache save --messages conversation.json --name support --ttl 24h
  terrace cache save --response chatcmpl-0123456789abcdef0123456789abcdef --pin
  terrace cache save --prompt-file book.txt --name book \\
      --kv-cache '{\"name\": \"h2o-torch-quantized8\", \"cache_length\": 2048}'")]
pub struct SaveArgs {
    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    source: Source,

    /// Its name; a handle of this name is replaced. Left out: a name is made up.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Delete it after this time, such as 90s, 30m, 24h or 7d. Left out: it stays.
    #[arg(long, value_name = "TIME")]
    ttl: Option<TimeSpan>,

    /// Keep it in memory, within the server's budget for that.
    #[arg(long)]
    pin: bool,

    /// The model, where the server has several.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,

    /// Which tokens its cache keeps, as a request's kv_cache says.
    #[arg(long, value_name = "JSON", value_parser = object, conflicts_with = "response")]
    kv_cache: Option<Map<String, Value>>,

    /// Print the handle as JSON.
    #[arg(long)]
    json: bool,
}

/// What is computed.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Source {
    /// A text.
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,

    /// A file with a text.
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<PathBuf>,

    /// A JSON file with a list of messages, or with an object that has messages and perhaps tools.
    #[arg(long, value_name = "FILE")]
    messages: Option<PathBuf>,

    /// The id of a response that this server has given: of a completion, a chat completion or a
    /// response.
    #[arg(long, value_name = "ID")]
    response: Option<String>,
}

pub fn run(args: &SaveArgs) -> Result<()> {
    let mut body = args.source.fields()?;
    let options = [
        ("name", json!(args.name)),
        ("ttl", json!(args.ttl.map(|TimeSpan(seconds)| seconds))),
        ("pin", json!(args.pin)),
        ("model", json!(args.model)),
        ("kv_cache", json!(args.kv_cache)),
    ];
    body.extend(options.map(|(name, value)| (name.to_owned(), value)));
    let client = ServerClient::new(&args.server);
    let handle: HandleShape = client.post(ROUTE, &Value::Object(body))?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&handle)?);
        return Ok(());
    }
    let HandleShape { name, id, tokens, .. } = &handle;
    println!("saved {name} (id {id}): {tokens} tokens, {}", handle.size());
    if !handle.durable {
        println!(
            "It is lost when the server stops: `terrace serve --kv-tier disk=FOLDER,SIZE` keeps \
             handles over restarts."
        );
    }
    println!("Go on from it:\n{}", args.next_step(handle.reference()));
    Ok(())
}

impl SaveArgs {
    fn next_step(&self, handle: &str) -> String {
        let (route, prompt) = match self.source.messages {
            Some(_) => ("chat/completions", r#""messages": [THE SAME MESSAGES, THEN YOURS]"#),
            None => ("completions", r#""prompt": "YOUR TEXT""#),
        };
        let url = self.server.url.trim_end_matches('/');
        format!(
            "  curl {url}/v1/{route} -H 'Content-Type: application/json' \\\n    -d '{{{prompt}, \
             \"kv_cache\": {{\"handle\": \"{handle}\"}}}}'"
        )
    }
}

impl Source {
    fn fields(&self) -> Result<Map<String, Value>> {
        let field = |name: &str, value: &str| Map::from_iter([(name.to_owned(), value.into())]);
        if let Some(text) = &self.prompt {
            return Ok(field("prompt", text));
        }
        if let Some(file) = &self.prompt_file {
            return Ok(field("prompt", &read(file)?));
        }
        if let Some(id) = &self.response {
            return Ok(field("response_id", id));
        }
        let file = self.messages.as_ref().expect("one of the group is required");
        let found = serde_json::from_str(&read(file)?);
        match found.with_context(|| format!("{} is not JSON", file.display()))? {
            Value::Object(fields) if fields.contains_key("messages") => Ok(fields),
            messages @ Value::Array(_) => Ok(Map::from_iter([("messages".to_owned(), messages)])),
            _ => bail!(
                "{} has no messages: give a list of them, such as [{{\"role\": \"system\", \
                 \"content\": \"...\"}}], or an object with \"messages\"",
                file.display()
            ),
        }
    }
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("give a JSON object: {error}"))
}
