//! What a handle is: whose, of which model, which tokens, how they were computed, and which pages.
//!
//! It is not the pages' bytes; these follow it in the file (`handle_file.rs`). Small fields are
//! JSON there, where fields that are not known are ignored and optional ones may be missing. Lists
//! that grow with the tokens are left out of the JSON; they lie beside it as plain numbers.
//!
//! A manifest that was read or is written has passed [`HandleManifest::check`].

use std::io::{self, Write};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use super::handle_id::HandleId;
use super::hex;

/// Of a handle, and of a table.
pub const MAX_TOKENS: u64 = 1 << 26;
pub const MAX_TABLES: usize = 4096;
pub const MAX_PAGE_BYTES: u64 = 1 << 30;
/// Of a handle's name.
pub const MAX_NAME_CHARS: usize = 128;
/// Of owner, salt, arithmetic, a table's format, and the text of `kv_cache`, whose values may take
/// some 70 bytes of memory for 2 of text.
const MAX_FIELD_BYTES: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HandleManifest {
    pub id: HandleId,
    /// 1 to 128 characters, none of them a control character.
    pub name: String,
    /// A hash of an API key, or whatever else tells owners apart.
    #[serde(default)]
    pub owner: Option<String>,
    pub created_unix_ms: u64,
    #[serde(default)]
    pub expires_unix_ms: Option<u64>,
    #[serde(default)]
    pub is_pinned: bool,
    /// It came as a file: its pages are as trustworthy as whoever sent it.
    #[serde(default)]
    pub is_imported: bool,
    /// The model's fingerprint.
    #[serde(with = "hex")]
    pub model: [u8; 32],
    /// The class of arithmetic that computed it.
    #[serde(with = "hex")]
    pub arithmetic: Vec<u8>,
    /// Of every page, in all tables.
    pub page_bytes: u64,
    #[serde(skip)]
    pub tokens: Vec<u32>,
    /// Tokens whose keys and values are in the pages.
    pub computed: u64,
    /// Where tokens of a prompt and generated ones alternate. Ascending, equal ones are empty runs.
    #[serde(skip)]
    pub row_kind_ends: Vec<u64>,
    /// Tokens up to here have positions that are scaled alike.
    #[serde(default)]
    pub scaled_end: Option<u64>,
    #[serde(default)]
    pub cache_salt: String,
    /// The request's cache policy as it was given.
    #[serde(default, deserialize_with = "bounded_value")]
    pub kv_cache: Option<Value>,
    /// Where the chunks of the prompt end, ascending. A plan may go further than the tokens.
    #[serde(skip)]
    pub chunk_ends: Vec<u64>,
    pub tables: Vec<TableManifest>,
}

/// One table of pages, as a kv group has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableManifest {
    /// What the bytes of its pages mean.
    #[serde(with = "hex")]
    pub format: Vec<u8>,
    /// The logical numbers of the pages that the file has, ascending. Others are absent.
    #[serde(skip)]
    pub pages: Vec<u64>,
    pub page_tokens: u64,
    /// Tokens that have a slot, or had one.
    pub len: u64,
}

/// What is inconsistent in a manifest, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ManifestFault(pub String);

impl HandleManifest {
    /// Of all tables.
    pub fn pages(&self) -> u64 {
        self.tables.iter().map(|table| table.pages.len() as u64).sum()
    }

    /// Says what is inconsistent, if anything is. It takes no memory.
    pub fn check(&self) -> Result<(), ManifestFault> {
        check_name(&self.name)?;
        let tokens = self.tokens.len() as u64;
        at_most("bytes of the owner", self.owner.as_ref().map_or(0, String::len), MAX_FIELD_BYTES)?;
        at_most("bytes of the salt", self.cache_salt.len(), MAX_FIELD_BYTES)?;
        at_most("bytes of the arithmetic", self.arithmetic.len(), MAX_FIELD_BYTES)?;
        at_most("tokens", tokens, MAX_TOKENS)?;
        at_most("computed tokens", self.computed, tokens)?;
        at_most("bytes of a page", self.page_bytes, MAX_PAGE_BYTES)?;
        at_most("tables", self.tables.len(), MAX_TABLES)?;
        at_most("ends of row kinds", self.row_kind_ends.len(), MAX_TOKENS)?;
        at_most("ends of chunks", self.chunk_ends.len(), MAX_TOKENS)?;
        let kv_cache_bytes = self.kv_cache.as_ref().map_or(0, text_bytes);
        at_most("bytes of kv_cache", kv_cache_bytes, MAX_FIELD_BYTES)?;
        if self.page_bytes == 0 {
            return Err(ManifestFault("pages of 0 bytes".to_owned()));
        }
        ascending("end of row kinds", &self.row_kind_ends, |before, next| before <= next)?;
        ascending("end of chunks", &self.chunk_ends, |before, next| before < next)?;
        at_most("last end of row kinds", last(&self.row_kind_ends), tokens)?;
        at_most("last end of chunks", last(&self.chunk_ends), MAX_TOKENS)?;
        for (index, table) in self.tables.iter().enumerate() {
            let of_table = |fault: ManifestFault| ManifestFault(format!("table {index}: {fault}"));
            table.check().map_err(of_table)?;
        }
        Ok(())
    }
}

impl TableManifest {
    fn check(&self) -> Result<(), ManifestFault> {
        at_most("bytes of the format", self.format.len(), MAX_FIELD_BYTES)?;
        at_most("tokens", self.len, MAX_TOKENS)?;
        if self.page_tokens == 0 {
            return Err(ManifestFault("pages of 0 tokens".to_owned()));
        }
        ascending("page", &self.pages, |before, next| before < next)?;
        let pages = self.len.div_ceil(self.page_tokens);
        match self.pages.last() {
            Some(&page) if page >= pages => Err(ManifestFault(format!(
                "page {page}, and {} tokens in pages of {} have {pages}",
                self.len, self.page_tokens
            ))),
            _ => Ok(()),
        }
    }
}

/// Whether a handle may have this name.
pub fn check_name(name: &str) -> Result<(), ManifestFault> {
    // Counting stops early: a name may be as long as a whole file.
    let chars = name.chars().take(MAX_NAME_CHARS + 1).count();
    if chars == 0 || chars > MAX_NAME_CHARS {
        let bytes = name.len();
        return Err(ManifestFault(format!(
            "a name of {bytes} bytes; give it 1 to {MAX_NAME_CHARS} characters"
        )));
    }
    match name.chars().position(char::is_control) {
        Some(at) => {
            Err(ManifestFault(format!("character {at} of the name is a control character")))
        }
        None => Ok(()),
    }
}

fn at_most(
    what: &str,
    found: impl TryInto<u64>,
    most: impl TryInto<u64>,
) -> Result<(), ManifestFault> {
    let [found, most] =
        [found.try_into().ok(), most.try_into().ok()].map(|n| n.unwrap_or(u64::MAX));
    if found <= most {
        Ok(())
    } else {
        Err(ManifestFault(format!("{what}: {found}, at most {most}")))
    }
}

fn ascending(
    what: &str,
    numbers: &[u64],
    is_ordered: impl Fn(u64, u64) -> bool,
) -> Result<(), ManifestFault> {
    match numbers.windows(2).position(|pair| !is_ordered(pair[0], pair[1])) {
        Some(at) => Err(ManifestFault(format!(
            "{what} {}, entry {}, comes after {}",
            numbers[at + 1],
            at + 1,
            numbers[at]
        ))),
        None => Ok(()),
    }
}

fn last(numbers: &[u64]) -> u64 {
    numbers.last().copied().unwrap_or(0)
}

/// The bytes of a value as JSON.
fn text_bytes(value: &Value) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("counting does not fail");
    count.0
}

/// A value whose text is short; it becomes values only after that is known.
fn bounded_value<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    let Some(text) = Option::<Box<RawValue>>::deserialize(from)? else { return Ok(None) };
    let bytes = text.get().len();
    if bytes > MAX_FIELD_BYTES {
        let message = format!("kv_cache of {bytes} bytes, at most {MAX_FIELD_BYTES}");
        return Err(serde::de::Error::custom(message));
    }
    serde_json::from_str(text.get()).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> HandleManifest {
        HandleManifest {
            id: HandleId([7; 16]),
            name: "a".to_owned(),
            owner: None,
            created_unix_ms: 5,
            expires_unix_ms: None,
            is_pinned: false,
            is_imported: false,
            model: [1; 32],
            arithmetic: vec![2],
            page_bytes: 10,
            tokens: vec![1; 9],
            computed: 9,
            row_kind_ends: vec![0, 4, 4, 9],
            scaled_end: None,
            cache_salt: String::new(),
            kv_cache: None,
            chunk_ends: vec![4, 12],
            tables: vec![TableManifest {
                format: vec![3],
                pages: vec![0, 2],
                page_tokens: 4,
                len: 9,
            }],
        }
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut HandleManifest), want: &str) {
        let mut manifest = manifest();
        manifest.check().expect("consistent");
        change(&mut manifest);
        assert_eq!(manifest.check(), Err(ManifestFault(want.to_owned())));
    }

    #[test]
    fn a_fault_says_what_is_inconsistent() {
        check(|m| m.name.clear(), "a name of 0 bytes; give it 1 to 128 characters");
        check(|m| m.name = "é".repeat(129), "a name of 258 bytes; give it 1 to 128 characters");
        check(|m| m.name.push('\n'), "character 1 of the name is a control character");
        check(|m| m.computed = 10, "computed tokens: 10, at most 9");
        check(|m| m.page_bytes = 0, "pages of 0 bytes");
        check(|m| m.page_bytes = 1 << 31, "bytes of a page: 2147483648, at most 1073741824");
        check(|m| m.cache_salt = "s".repeat(65537), "bytes of the salt: 65537, at most 65536");
        check(
            |m| m.kv_cache = Some("k".repeat(65536).into()),
            "bytes of kv_cache: 65538, at most 65536",
        );
        check(|m| m.row_kind_ends[1] = 3 + 2, "end of row kinds 4, entry 2, comes after 5");
        check(|m| m.row_kind_ends.push(10), "last end of row kinds: 10, at most 9");
        check(|m| m.chunk_ends[1] = 4, "end of chunks 4, entry 1, comes after 4");
        check(|m| m.chunk_ends[1] = 1 << 40, "last end of chunks: 1099511627776, at most 67108864");
        check(|m| m.tables[0].page_tokens = 0, "table 0: pages of 0 tokens");
        check(|m| m.tables[0].len = 1 << 40, "table 0: tokens: 1099511627776, at most 67108864");
        check(|m| m.tables[0].pages[0] = 2, "table 0: page 2, entry 1, comes after 2");
        check(|m| m.tables[0].pages[1] = 3, "table 0: page 3, and 9 tokens in pages of 4 have 3");
    }

    #[test]
    fn the_longest_name_is_taken() {
        check_name(&"😀".repeat(128)).expect("128 characters");
    }

    #[test]
    fn json_may_lack_optional_fields_and_have_others() {
        let ids = ["07".repeat(16), "01".repeat(32)];
        let text = format!(
            r#"{{"id": "{}", "name": "a", "created_unix_ms": 5, "model": "{}", "arithmetic": "02",
            "page_bytes": 10, "computed": 9, "later": [1], "tables":
            [{{"format": "03", "page_tokens": 4, "len": 9, "later": {{}}}}]}}"#,
            ids[0], ids[1]
        );
        let mut read: HandleManifest = serde_json::from_str(&text).expect("a manifest");
        let want = manifest();
        read.tokens.clone_from(&want.tokens);
        read.row_kind_ends.clone_from(&want.row_kind_ends);
        read.chunk_ends.clone_from(&want.chunk_ends);
        read.tables[0].pages.clone_from(&want.tables[0].pages);
        assert_eq!(read, want);
        let refused = [
            text.replace("\"02\"", "\"2\""),
            text.replace("0101", "01"),
            text.replace("\"later\": [1]", &format!("\"kv_cache\": [{}1]", "1,".repeat(40_000))),
        ];
        for text in refused {
            serde_json::from_str::<HandleManifest>(&text).expect_err("refused");
        }
    }
}
