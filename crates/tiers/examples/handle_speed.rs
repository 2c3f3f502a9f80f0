//! How fast handles are written, read, exported and imported, 2 GiB in pages of 2 MiB:
//!
//!     cargo run --release -p terrace-tiers --example handle_speed -- path/to/folder
//!
//! `benches/tiers.md` has results.

use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::time::Instant;

use terrace_tiers::{HandleId, HandleManifest, HandleReader, HandleStore, TableManifest};

const PAGE_BYTES: u64 = 2 << 20;
const PAGES: u64 = 1024;
const ROUNDS: u64 = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("say: path/to/folder")?;
    let folder = Path::new(&folder);
    let store = HandleStore::open(folder.join("handles"), 3 * PAGES * PAGE_BYTES)?;
    let mut page: Vec<u8> = (0..PAGE_BYTES).map(|byte| (byte * 31) as u8).collect();
    println!("{PAGES} pages of {PAGE_BYTES} bytes, MB/s:");
    for round in 0..ROUNDS {
        let begun = Instant::now();
        let mut draft = store.create(&manifest(round))?;
        for _ in 0..PAGES {
            draft.write_page(&page)?;
        }
        let info = draft.commit()?;
        let written = speed(begun);

        let begun = Instant::now();
        let mut reader = store.open_reader(info.id)?;
        while reader.pages_left() > 0 {
            reader.read_page(&mut page)?;
        }
        reader.finish()?;
        let read = speed(begun);

        let begun = Instant::now();
        store.export(info.id, std::io::sink())?;
        let exported = speed(begun);

        // From the page cache, as from a fast network.
        let copy = folder.join("copy.kv");
        store.export(info.id, File::create(&copy)?)?;
        let begun = Instant::now();
        let imported =
            store.import(HandleReader::new(File::open(&copy)?)?, None, None, &mut |_| Ok(()))?;
        let import = speed(begun);
        std::fs::remove_file(&copy)?;
        for id in [info.id, imported.id] {
            store.remove(id)?;
        }
        println!(
            "  write and commit {written:6.0}   read {read:6.0}   export to nowhere \
             {exported:6.0}   import and commit {import:6.0}"
        );
    }
    Ok(())
}

fn speed(begun: Instant) -> f64 {
    (PAGES * PAGE_BYTES) as f64 / begun.elapsed().as_secs_f64() / 1e6
}

fn manifest(created_unix_ms: u64) -> HandleManifest {
    let page_tokens = 64;
    let tokens = PAGES * page_tokens;
    let pages = (0..PAGES).collect();
    HandleManifest {
        id: HandleId::random(),
        name: "speed".to_owned(),
        owner: Some("me".to_owned()),
        created_unix_ms,
        expires_unix_ms: None,
        is_pinned: false,
        is_imported: false,
        model: [7; 32],
        arithmetic: vec![1],
        page_bytes: PAGE_BYTES,
        tokens: (0..tokens as u32).collect(),
        computed: tokens,
        row_kind_ends: vec![tokens],
        scaled_end: None,
        cache_salt: String::new(),
        kv_cache: None,
        chunk_ends: (1..=PAGES).map(|page| page * page_tokens).collect(),
        tables: vec![TableManifest { format: vec![2], pages, page_tokens, len: tokens }],
    }
}
