//! `terrace ps migrate`: copies a persistent store into one of another kind.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use terrace_embedding::{DatabaseFolder, PersistentKind, RowDatabase, compare_table, migrate};

use super::level_access::LibraryArgs;
use crate::progress;

/// Copy a persistent store into one of another kind: RocksDB to embedded, or back.
///
/// The source is known by what lies in its folder, and only read. Every row that was copied is then
/// compared. A table that the target has complete is left as it is, so what was interrupted goes on
/// where it was.
#[derive(Args, Debug)]
#[command(after_long_help = "Example:
  terrace ps migrate --from /data/rocksdb --to /data/rows

Then set persistent_db in ps.json: {\"type\": \"embedded\", \"path\": \"/data/rows\"}. No server may
have the target open, nor the source if its type is embedded.")]
pub struct MigrateArgs {
    /// The folder of a RocksDB or of an embedded store.
    #[arg(long, value_name = "FOLDER")]
    from: PathBuf,

    /// The folder to copy into; made where there is none.
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,

    /// What the copy is. Left out: of the other kind.
    #[arg(long, value_name = "KIND")]
    to_kind: Option<TargetKind>,

    #[command(flatten)]
    library: LibraryArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TargetKind {
    Rocksdb,
    Embedded,
}

/// Keys that are named of a copy that is wrong.
const FIRST_KEYS: usize = 5;

pub fn run(args: &MigrateArgs) -> Result<()> {
    let (source, target) = folders(args)?;
    let library = args.library.folders();
    let in_use = |folder: &DatabaseFolder| {
        format!("cannot open {}; is a server running on it?", folder.path.display())
    };
    let from = source.open_to_read(&library).with_context(|| in_use(&source))?;
    let to = target.open_to_write(&library).with_context(|| in_use(&target))?;
    let mut bars = Bars { from: &*from, bar: None };
    // Rows of the tables that were copied now.
    let mut copied: BTreeMap<String, u64> = BTreeMap::new();
    migrate(&*from, &*to, &mut |tag, rows| {
        copied.insert(tag.to_owned(), rows);
        bars.show("copying", tag, rows);
    })?;
    for (tag, rows) in &copied {
        let show = &mut |rows| bars.show("comparing", tag, rows);
        let compared = compare_table(&*from, &*to, tag, FIRST_KEYS, show)?.unwrap_or_default();
        if compared.equal != *rows || compared.rows() != *rows {
            bail!(
                "table {tag}: {rows} rows were copied, and {} of {} are equal (missing: {:?}, \
                 different: {:?}); is the source being written? Remove the target and copy again",
                compared.equal,
                compared.rows(),
                compared.missing.first,
                compared.different.first
            );
        }
    }
    bars.finish();
    for (tag, rows) in &copied {
        println!("{tag}: {rows} rows copied and compared");
    }
    let there = from.tags()?.into_iter().filter(|tag| !copied.contains_key(tag));
    there.for_each(|tag| println!("{tag}: left as it is, the target has it or it is empty"));
    println!("{} is a store of type {}", target.path.display(), name(target.kind));
    Ok(())
}

/// Source and target, which differ.
fn folders(args: &MigrateArgs) -> Result<(DatabaseFolder, DatabaseFolder)> {
    let (from, to) = (args.from.display(), args.to.display());
    let source = DatabaseFolder::find(&args.from).with_context(|| {
        format!(
            "{from} is no folder of RocksDB nor of an embedded store; give that of \
                 persistent_db"
        )
    })?;
    let kind = match (args.to_kind, source.kind) {
        (Some(TargetKind::Rocksdb), _) | (None, PersistentKind::Embedded) => {
            PersistentKind::RocksDb
        }
        (Some(TargetKind::Embedded), _) | (None, PersistentKind::RocksDb) => {
            PersistentKind::Embedded
        }
    };
    let is_same = match (args.from.canonicalize(), args.to.canonicalize()) {
        (Ok(from), Ok(to)) => from == to,
        _ => false,
    };
    if is_same {
        bail!("{from} and {to} are one folder; copy into another");
    }
    if let Some(there) = DatabaseFolder::find(&args.to)
        && there.kind != kind
    {
        bail!("{to} is a store of type {} already; choose another folder", name(there.kind));
    }
    Ok((source, DatabaseFolder { path: args.to.clone(), kind }))
}

fn name(kind: PersistentKind) -> &'static str {
    match kind {
        PersistentKind::RocksDb => "rocksdb",
        PersistentKind::Embedded => "embedded",
    }
}

/// A bar for each table and step.
struct Bars<'a> {
    from: &'a dyn RowDatabase,
    bar: Option<(String, ProgressBar)>,
}

impl Bars<'_> {
    fn show(&mut self, what: &str, tag: &str, rows: u64) {
        let title = format!("{what} {tag}");
        if self.bar.as_ref().is_none_or(|(of, _)| *of != title) {
            self.finish();
            let known = self.from.record(tag).ok().flatten();
            let bar = progress::rows(title.clone(), known.map_or(0, |record| record.loaded_rows));
            self.bar = Some((title, bar));
        }
        if let Some((_, bar)) = &self.bar {
            bar.set_length(bar.length().unwrap_or_default().max(rows));
            bar.set_position(rows);
        }
    }

    fn finish(&mut self) {
        if let Some((_, bar)) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
