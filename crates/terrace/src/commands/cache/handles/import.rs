//! `terrace cache import`: a file becomes a handle of a running server.

use std::fs::File;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use super::ROUTE;
use super::handle_shape::HandleShape;
use super::server_client::{ServerArgs, ServerClient, escaped};
use crate::progress;

/// Give a server a KV cache that another has exported.
///
/// The server must serve the same model. Nobody but the importer uses what comes so: its pages are
/// never shared with other requests.
#[derive(Args, Debug)]
pub struct ImportArgs {
    /// The file that `terrace cache export` wrote.
    file: PathBuf,

    #[command(flatten)]
    server: ServerArgs,

    /// Its name; a handle of this name is replaced. Left out: the name it had.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// The model, where the server has several.
    #[arg(long, value_name = "NAME")]
    model: Option<String>,

    /// Print the handle as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ImportArgs) -> Result<()> {
    let of_file = || format!("cannot read {}", args.file.display());
    let file = File::open(&args.file).with_context(of_file)?;
    let bytes = file.metadata().with_context(of_file)?.len();
    let given = [("name", &args.name), ("model", &args.model)];
    let given = given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let query: Vec<_> = given.map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    let path = format!("{ROUTE}/import?{}", query.join("&"));
    let bar = progress::bytes("importing", bytes);
    let source = bar.wrap_read(file);
    let handle: HandleShape = ServerClient::new(&args.server).upload(&path, source, bytes)?;
    bar.finish_and_clear();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&handle)?);
        return Ok(());
    }
    let HandleShape { name, id, tokens, .. } = &handle;
    println!("imported {name} (id {id}): {tokens} tokens, {}", handle.size());
    println!("Go on from it with \"kv_cache\": {{\"handle\": {:?}}}", handle.reference());
    Ok(())
}
