//! The bytes of a handle as a file.
//!
//! | offset | bytes | what |
//! |---:|---:|---|
//! | 0 | 8 | magic, `TERRHAND` |
//! | 8 | 2 | version of this format, 1 |
//! | 10 | 2 | tables, `T`, at most 4,096 |
//! | 12 | 4 | bytes of the JSON, `J`, at most 4 MiB |
//! | 16 | 8 | bytes of the whole file |
//! | 24 | 8 | bytes of a page, `B`, 1 to 2^30 |
//! | 32 | 8 | pages of all tables, `P` |
//! | 40 | 8 | tokens, `N`, at most 2^26 |
//! | 48 | 8 | ends of row kinds, `R`, at most 2^26 |
//! | 56 | 8 | ends of chunks, `C`, at most 2^26 |
//! | 64 | 8 | XXH3-64, seed 0, of bytes 0 to 64 |
//! | 72 | `J` | the manifest's fields as JSON |
//! | | 4 `N` | tokens, u32 each |
//! | | 8 `R` | ends of row kinds, u64 each |
//! | | 8 `C` | ends of chunks, u64 each |
//! | | 8 `T` | how many pages each table has, u64 each; their sum is `P` |
//! | | 8 `P` | the pages' logical numbers, table by table, u64 each |
//! | | 8 | XXH3-64, seed 0, of all from byte 72 on |
//! | | `B` + 8, `P` times | a page, then its XXH3-64 with its place in the file, from 0, as seed |
//!
//! Numbers are little-endian. Nothing is padded and nothing follows the last page, so the length in
//! the header is known to be right or wrong before anything else is read. A file of another version
//! is refused: what it holds is computed again. Checksums find damage, not malice: whoever can
//! write a file can write one that is consistent and wrong.
//!
//! What reading one takes in memory: the JSON's values, and twice the bytes that have arrived.

use std::io;

use thiserror::Error;
use twox_hash::XxHash3_64;

use super::handle_manifest::{
    HandleManifest, MAX_PAGE_BYTES, MAX_TABLES, MAX_TOKENS, ManifestFault,
};

pub(super) const HEADER_BYTES: usize = 72;
pub(super) const CHECKSUM_BYTES: usize = 8;

const MAGIC: [u8; 8] = *b"TERRHAND";
const VERSION: u16 = 1;
const HEADER_CHECKSUM_AT: usize = 64;
const MAX_JSON_BYTES: u64 = 4 << 20;

/// Why bytes are not a whole handle.
#[derive(Debug, Error)]
pub enum HandleFault {
    #[error("torn: it ends after {bytes} of {want_bytes} bytes")]
    Torn { bytes: u64, want_bytes: u64 },
    #[error("not the file of a kv cache")]
    NotAHandle,
    #[error("format version {0}, this server reads version {VERSION}")]
    OtherVersion(u16),
    #[error("the header is damaged")]
    DamagedHeader,
    #[error("the manifest is damaged")]
    DamagedManifest,
    #[error("page {0} is damaged")]
    DamagedPage(u64),
    #[error("page {page}: {what}")]
    Content { page: u64, what: String },
    #[error("bytes follow after {0}, where it should end")]
    TrailingBytes(u64),
    #[error("inconsistent manifest: {0}")]
    Manifest(#[from] ManifestFault),
    #[error("a page of {bytes} bytes, and its pages have {want_bytes}")]
    WrongPageBytes { bytes: usize, want_bytes: u64 },
    #[error("page {page}, and it has {pages} pages")]
    TooManyPages { page: u64, pages: u64 },
    #[error("{pages} of {want_pages} pages are done")]
    TooFewPages { pages: u64, want_pages: u64 },
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The numbers of a header, which are within their limits and explain the length of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub tables: u64,
    pub json_bytes: u64,
    pub file_bytes: u64,
    pub page_bytes: u64,
    pub pages: u64,
    pub tokens: u64,
    pub row_kind_ends: u64,
    pub chunk_ends: u64,
}

/// All of a file in front of its pages.
pub(super) struct Front {
    pub header: Header,
    pub bytes: Vec<u8>,
}

impl Header {
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, HandleFault> {
        if bytes[..8] != MAGIC {
            return Err(HandleFault::NotAHandle);
        }
        let version = u16::from_le_bytes(array(bytes, 8));
        if version != VERSION {
            return Err(HandleFault::OtherVersion(version));
        }
        let number = |at: usize| u64::from_le_bytes(array(bytes, at));
        if XxHash3_64::oneshot(&bytes[..HEADER_CHECKSUM_AT]) != number(HEADER_CHECKSUM_AT) {
            return Err(HandleFault::DamagedHeader);
        }
        let header = Header {
            tables: u16::from_le_bytes(array(bytes, 10)).into(),
            json_bytes: u32::from_le_bytes(array(bytes, 12)).into(),
            file_bytes: number(16),
            page_bytes: number(24),
            pages: number(32),
            tokens: number(40),
            row_kind_ends: number(48),
            chunk_ends: number(56),
        };
        header.check()?;
        Ok(header)
    }

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let tables = u16::try_from(self.tables).expect("at most 4,096 tables");
        let json_bytes = u32::try_from(self.json_bytes).expect("at most 4 MiB");
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&tables.to_le_bytes());
        bytes[12..16].copy_from_slice(&json_bytes.to_le_bytes());
        let numbers = [self.file_bytes, self.page_bytes, self.pages, self.tokens];
        let numbers = numbers.into_iter().chain([self.row_kind_ends, self.chunk_ends]);
        for (number, place) in numbers.zip(bytes[16..].chunks_exact_mut(8)) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let checksum = XxHash3_64::oneshot(&bytes[..HEADER_CHECKSUM_AT]);
        bytes[HEADER_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn check(&self) -> Result<(), HandleFault> {
        let limits = [
            ("tables", self.tables, MAX_TABLES as u64),
            ("bytes of JSON", self.json_bytes, MAX_JSON_BYTES),
            ("bytes of a page", self.page_bytes, MAX_PAGE_BYTES),
            ("tokens", self.tokens, MAX_TOKENS),
            ("ends of row kinds", self.row_kind_ends, MAX_TOKENS),
            ("ends of chunks", self.chunk_ends, MAX_TOKENS),
        ];
        for (what, found, most) in limits {
            if found > most {
                return Err(ManifestFault(format!("{what}: {found}, at most {most}")).into());
            }
        }
        if self.expected_file_bytes() != Some(self.file_bytes) {
            let Header { file_bytes, pages, page_bytes, .. } = self;
            return Err(ManifestFault(format!(
                "{file_bytes} bytes are not those of {pages} pages of {page_bytes} bytes and \
                 what is in front of them"
            ))
            .into());
        }
        Ok(())
    }

    /// `None` where no file is as long as that.
    fn expected_file_bytes(&self) -> Option<u64> {
        let pages = self.pages.checked_mul(8)?;
        let numbers = 4 * self.tokens + 8 * (self.row_kind_ends + self.chunk_ends + self.tables);
        let fixed = (HEADER_BYTES + CHECKSUM_BYTES) as u64;
        let front = (fixed + self.json_bytes + numbers).checked_add(pages)?;
        front.checked_add(self.pages.checked_mul(self.page_bytes + CHECKSUM_BYTES as u64)?)
    }
}

impl Front {
    pub fn encode(manifest: &HandleManifest) -> Result<Self, HandleFault> {
        manifest.check()?;
        let json = serde_json::to_vec(manifest).map_err(io::Error::from)?;
        let mut header = Header {
            tables: manifest.tables.len() as u64,
            json_bytes: json.len() as u64,
            file_bytes: 0,
            page_bytes: manifest.page_bytes,
            pages: manifest.pages(),
            tokens: manifest.tokens.len() as u64,
            row_kind_ends: manifest.row_kind_ends.len() as u64,
            chunk_ends: manifest.chunk_ends.len() as u64,
        };
        header.file_bytes = header.expected_file_bytes().unwrap_or(0);
        header.check()?;
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(&json);
        bytes.extend(manifest.tokens.iter().flat_map(|token| token.to_le_bytes()));
        let tables = &manifest.tables;
        let numbers = manifest.row_kind_ends.iter().chain(&manifest.chunk_ends).copied();
        let numbers = numbers.chain(tables.iter().map(|table| table.pages.len() as u64));
        let numbers = numbers.chain(tables.iter().flat_map(|table| &table.pages).copied());
        bytes.extend(numbers.flat_map(u64::to_le_bytes));
        let checksum = XxHash3_64::oneshot(&bytes[HEADER_BYTES..]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        Ok(Front { header, bytes })
    }
}

/// The checksum behind the page at that place in the file.
pub(super) fn page_checksum(page: &[u8], place: u64) -> [u8; CHECKSUM_BYTES] {
    XxHash3_64::oneshot_with_seed(place, page).to_le_bytes()
}

fn array<const BYTES: usize>(bytes: &[u8], at: usize) -> [u8; BYTES] {
    bytes[at..at + BYTES].try_into().expect("a slice of that length")
}

#[cfg(test)]
mod tests;
