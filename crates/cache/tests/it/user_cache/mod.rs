//! Users and their pages: against the traces of the original's manager, and against plain books.

mod bytes_model;
mod plain_policy;
mod properties;
mod spans;
mod traces;

use terrace_cache::users::{HistorySeed, PageContent};

fn history_seed() -> HistorySeed {
    let content =
        PageContent { layers: &[1; 32], arithmetic: b"class", format: b"f32", tables: b"" };
    HistorySeed::new("feed", content, 0)
}
