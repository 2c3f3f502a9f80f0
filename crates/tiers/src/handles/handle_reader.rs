//! Reads a handle: its manifest, then its pages in order. The bytes are `handle_file.rs`'s.
//!
//! What it gives was checked: the manifest as a whole, each page by its checksum. Nothing is
//! believed before it has arrived, so a short file that claims much costs little.

use std::hash::Hasher;
use std::io::{self, ErrorKind, Read};

use twox_hash::XxHash3_64;

use super::handle_file::{CHECKSUM_BYTES, HEADER_BYTES, HandleFault, Header, page_checksum};
use super::handle_manifest::{HandleManifest, ManifestFault};

/// Numbers are read in such parts.
const PART_BYTES: usize = 64 << 10;

pub struct HandleReader<R> {
    source: Counted<R>,
    header: Header,
    manifest: HandleManifest,
    page: u64,
}

impl<R: Read> HandleReader<R> {
    /// Reads everything in front of the pages.
    pub fn new(source: R) -> Result<Self, HandleFault> {
        let mut source = Counted { source, bytes: 0, want_bytes: HEADER_BYTES as u64 };
        let mut header = [0; HEADER_BYTES];
        source.read_exact(&mut header)?;
        let header = Header::decode(&header)?;
        source.want_bytes = header.file_bytes;
        let manifest = read_manifest(&mut source, &header)?;
        Ok(HandleReader { source, header, manifest, page: 0 })
    }

    pub fn manifest(&self) -> &HandleManifest {
        &self.manifest
    }

    /// For fields that have changed since the file was written.
    pub(super) fn with_labels(mut self, set: impl FnOnce(&mut HandleManifest)) -> Self {
        set(&mut self.manifest);
        self
    }

    /// Of the whole file.
    pub fn file_bytes(&self) -> u64 {
        self.header.file_bytes
    }

    /// That have not been read yet.
    pub fn pages_left(&self) -> u64 {
        self.header.pages - self.page
    }

    /// The next page, table by table as the manifest lists them. `page` has its bytes.
    pub fn read_page(&mut self, page: &mut [u8]) -> Result<(), HandleFault> {
        self.begin_page()?;
        let want_bytes = self.header.page_bytes;
        if page.len() as u64 != want_bytes {
            return Err(HandleFault::WrongPageBytes { bytes: page.len(), want_bytes });
        }
        self.source.read_exact(page)?;
        self.end_page(page)
    }

    /// As [`read_page`](Self::read_page) into memory that grows with the bytes that arrive: for
    /// files whose manifest is not trusted.
    pub fn read_page_growing(&mut self, page: &mut Vec<u8>) -> Result<(), HandleFault> {
        self.begin_page()?;
        page.clear();
        self.source.read_growing(page, self.header.page_bytes)?;
        self.end_page(page)
    }

    /// All pages were read, and nothing follows them.
    pub fn finish(mut self) -> Result<R, HandleFault> {
        if self.pages_left() > 0 {
            let want_pages = self.header.pages;
            return Err(HandleFault::TooFewPages { pages: self.page, want_pages });
        }
        match self.source.source.read_exact(&mut [0]) {
            Ok(()) => Err(HandleFault::TrailingBytes(self.header.file_bytes)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(self.source.source),
            Err(error) => Err(error.into()),
        }
    }

    fn begin_page(&self) -> Result<(), HandleFault> {
        if self.pages_left() == 0 {
            return Err(HandleFault::TooManyPages { page: self.page, pages: self.header.pages });
        }
        Ok(())
    }

    fn end_page(&mut self, page: &[u8]) -> Result<(), HandleFault> {
        let mut checksum = [0; CHECKSUM_BYTES];
        self.source.read_exact(&mut checksum)?;
        if checksum != page_checksum(page, self.page) {
            return Err(HandleFault::DamagedPage(self.page));
        }
        self.page += 1;
        Ok(())
    }
}

fn read_manifest<R: Read>(
    source: &mut Counted<R>,
    header: &Header,
) -> Result<HandleManifest, HandleFault> {
    let mut hash = XxHash3_64::new();
    let mut json = Vec::new();
    source.read_growing(&mut json, header.json_bytes)?;
    hash.write(&json);
    let mut numbers = Numbers { source, hash: &mut hash };
    let tokens = numbers.read(header.tokens, u32::from_le_bytes)?;
    let row_kind_ends = numbers.read(header.row_kind_ends, u64::from_le_bytes)?;
    let chunk_ends = numbers.read(header.chunk_ends, u64::from_le_bytes)?;
    let table_pages = numbers.read(header.tables, u64::from_le_bytes)?;
    let mut pages = numbers.read(header.pages, u64::from_le_bytes)?;
    let mut checksum = [0; CHECKSUM_BYTES];
    source.read_exact(&mut checksum)?;
    if checksum != hash.finish().to_le_bytes() {
        return Err(HandleFault::DamagedManifest);
    }
    let of_json = |error: serde_json::Error| ManifestFault(error.to_string());
    let mut manifest: HandleManifest = serde_json::from_slice(&json).map_err(of_json)?;
    agree("tables", manifest.tables.len() as u64, header.tables)?;
    agree("bytes of a page", manifest.page_bytes, header.page_bytes)?;
    let sum = table_pages.iter().try_fold(0u64, |sum, &count| sum.checked_add(count));
    agree("pages", sum.unwrap_or(u64::MAX), header.pages)?;
    // From the last table on, so that each list is the end of the rest.
    for (table, &count) in manifest.tables.iter_mut().zip(&table_pages).rev() {
        table.pages = pages.split_off(pages.len() - count as usize);
    }
    (manifest.tokens, manifest.row_kind_ends, manifest.chunk_ends) =
        (tokens, row_kind_ends, chunk_ends);
    manifest.check()?;
    Ok(manifest)
}

fn agree(what: &str, found: u64, header: u64) -> Result<(), ManifestFault> {
    if found == header {
        return Ok(());
    }
    Err(ManifestFault(format!("{what}: {found}, and the header says {header}")))
}

/// Bytes that arrive, counted: an end before the known one is a torn file.
struct Counted<R> {
    source: R,
    bytes: u64,
    want_bytes: u64,
}

impl<R: Read> Counted<R> {
    fn read_exact(&mut self, mut bytes: &mut [u8]) -> Result<(), HandleFault> {
        while !bytes.is_empty() {
            match self.source.read(bytes) {
                Ok(0) => return Err(self.torn()),
                Ok(count) => {
                    self.bytes += count as u64;
                    bytes = &mut bytes[count..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read_growing(&mut self, bytes: &mut Vec<u8>, count: u64) -> Result<(), HandleFault> {
        let read: io::Result<usize> = self.source.by_ref().take(count).read_to_end(bytes);
        let read = read? as u64;
        self.bytes += read;
        if read < count { Err(self.torn()) } else { Ok(()) }
    }

    fn torn(&self) -> HandleFault {
        HandleFault::Torn { bytes: self.bytes, want_bytes: self.want_bytes }
    }
}

struct Numbers<'a, R> {
    source: &'a mut Counted<R>,
    hash: &'a mut XxHash3_64,
}

impl<R: Read> Numbers<'_, R> {
    /// The list grows as its bytes arrive.
    fn read<T, const BYTES: usize>(
        &mut self,
        count: u64,
        decode: fn([u8; BYTES]) -> T,
    ) -> Result<Vec<T>, HandleFault> {
        let mut numbers = Vec::new();
        let mut left = count.saturating_mul(BYTES as u64);
        let mut part = vec![0; left.min(PART_BYTES as u64) as usize];
        while left > 0 {
            let bytes = left.min(part.len() as u64);
            let part = &mut part[..bytes as usize];
            self.source.read_exact(part)?;
            self.hash.write(part);
            numbers.extend(part.as_chunks().0.iter().map(|&bytes| decode(bytes)));
            left -= bytes;
        }
        Ok(numbers)
    }
}
