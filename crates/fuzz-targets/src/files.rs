//! Inputs that stand for several files.
//!
//! A line `=== name ===` begins each file; the bytes up to the next such line are its content.

use std::io::Write;

use tempfile::{NamedTempFile, TempDir};

const MARK: &[u8] = b"=== ";

/// The files of an input, those of the given names only.
pub fn sections<'a>(input: &'a [u8], names: &[&'static str]) -> Vec<(&'static str, &'a [u8])> {
    let mut found = Vec::new();
    let mut rest = input;
    while let Some((name, content)) = heading(rest, names) {
        let end = next_heading(content);
        // The line's end before the next mark belongs to the mark.
        let own = content[..end].strip_suffix(b"\n").unwrap_or(&content[..end]);
        found.push((name, own));
        rest = &content[end..];
    }
    found
}

/// Writes the files into a folder of their own.
pub fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).expect("the folder can be written");
    }
    folder
}

pub fn file(content: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(content).expect("the file can be written");
    file
}

fn heading<'a>(bytes: &'a [u8], names: &[&'static str]) -> Option<(&'static str, &'a [u8])> {
    let rest = bytes.strip_prefix(MARK)?;
    let of_name = |name: &&'static str| {
        let content = rest.strip_prefix(name.as_bytes())?.strip_prefix(b" ===\n")?;
        Some((*name, content))
    };
    names.iter().find_map(of_name)
}

fn next_heading(content: &[u8]) -> usize {
    let marks = content.windows(MARK.len()).enumerate();
    let starts_line = |at: usize| at == 0 || content[at - 1] == b'\n';
    let mut marks = marks.filter(|(at, window)| *window == MARK && starts_line(*at));
    marks.next().map_or(content.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_end_where_the_next_begins() {
        let names = ["a.json", "b"];
        let check = |input: &str, want: &[(&str, &str)]| {
            let found = sections(input.as_bytes(), &names);
            let want: Vec<_> = want.iter().map(|(name, text)| (*name, text.as_bytes())).collect();
            assert_eq!(found, want, "{input:?}");
        };
        check("=== a.json ===\n{}\n=== b ===\nx\n", &[("a.json", "{}"), ("b", "x")]);
        check("=== b ====== a", &[]);
        check("=== b ===\n=== a.json ===\n", &[("b", ""), ("a.json", "")]);
        check("=== b ===\nx === b ===\n\n", &[("b", "x === b ===\n")]);
        check("=== c ===\n", &[]);
    }
}
