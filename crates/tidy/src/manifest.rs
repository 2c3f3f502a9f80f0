//! What a crate's `Cargo.toml` says: whose it is, and what it depends on.

use std::path::Path;

pub fn crate_of(manifest: &Path) -> &str {
    let folder = manifest.parent().and_then(Path::file_name);
    folder.and_then(|name| name.to_str()).unwrap_or_default()
}

/// The packages that a manifest depends on, on any platform and for builds and tests too, each with
/// its line.
pub fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let Ok(table) = manifest.parse::<toml::Table>() else { return Vec::new() };
    let platforms = table.get("target").and_then(|it| it.as_table()).into_iter();
    let platforms = platforms.flat_map(|it| it.values()).filter_map(|it| it.as_table());
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    let tables = std::iter::once(&table)
        .chain(platforms)
        .flat_map(|table| kinds.iter().filter_map(|kind| table.get(*kind)?.as_table()));
    let line_of = |name: &str| {
        let starts = |line: &str| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        };
        manifest.lines().position(starts).map_or(0, |index| index + 1)
    };
    let package = |(name, value): (&String, &toml::Value)| {
        let renamed = value.get("package").and_then(|package| package.as_str());
        (line_of(name), renamed.unwrap_or(name).to_owned())
    };
    tables.flat_map(|table| table.iter()).map(package).collect()
}
