//! `terrace cache export`: a handle of a running server as a file.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::ROUTE;
use super::handle_shape::HandleShape;
use super::server_client::{ServerArgs, ServerClient, escaped};
use crate::byte_size::ByteSize;
use crate::progress;

const CHUNK_BYTES: usize = 1 << 20;

/// Write a KV cache that a server keeps by name to a file.
///
/// The file has its final name when all of it is there. It holds the prompt's token ids and what
/// the model computed of them: keep it as secret as the prompt.
#[derive(Args, Debug)]
pub struct ExportArgs {
    /// Its name or id.
    handle: String,

    /// The file, which must not exist yet.
    file: PathBuf,

    #[command(flatten)]
    server: ServerArgs,
}

pub fn run(args: &ExportArgs) -> Result<()> {
    let file = &args.file;
    if file.exists() {
        bail!("{} exists; remove it, or choose another name", file.display());
    }
    let client = ServerClient::new(&args.server);
    let path = format!("{ROUTE}/{}", escaped(&args.handle));
    let handle: HandleShape = client.get(&path)?;
    let source = client.download(&format!("{ROUTE}/{}/export", handle.id))?;
    let part = part_of(file);
    let written = copy(source.into_reader(), &part, handle.bytes).and_then(|bytes| {
        let renamed = fs::rename(&part, file);
        renamed.with_context(|| format!("cannot name it {}", file.display())).map(|()| bytes)
    });
    let bytes = written.inspect_err(|_| {
        // It may not have come to be; there is nothing to do about one that stays.
        let _ = fs::remove_file(&part);
    })?;
    let size = ByteSize(usize::try_from(bytes).unwrap_or(usize::MAX));
    println!("exported {} to {}: {} tokens, {size}", handle.name, file.display(), handle.tokens);
    println!(
        "A server with the same model takes it:\n  terrace cache import {} --url URL",
        file.display()
    );
    Ok(())
}

/// A name beside the file's that no other process takes.
fn part_of(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".part-{}", process::id()));
    file.with_file_name(name)
}

fn copy(mut source: impl Read, part: &Path, about_bytes: u64) -> Result<u64> {
    let of_file = || format!("cannot write {}", part.display());
    let mut sink = BufWriter::new(File::create_new(part).with_context(of_file)?);
    let bar = progress::bytes("exporting", about_bytes);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = 0;
    loop {
        let read =
            source.read(&mut chunk).context("the server stopped sending; export it again")?;
        if read == 0 {
            break;
        }
        sink.write_all(&chunk[..read]).with_context(of_file)?;
        bytes += read as u64;
        bar.inc(read as u64);
    }
    let file = sink.into_inner().map_err(|error| error.into_error()).with_context(of_file)?;
    file.sync_all().with_context(of_file)?;
    bar.finish_and_clear();
    Ok(bytes)
}
