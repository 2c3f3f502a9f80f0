//! Writes a handle: its manifest first, then its pages in order. The bytes are `handle_file.rs`'s.
//!
//! It writes each page and each checksum at once and keeps nothing: whoever gives a file or a
//! socket gives one that gathers small writes.

use std::io::{self, Write};

use super::handle_file::{Front, HandleFault, Header, page_checksum};
use super::handle_manifest::HandleManifest;

pub struct HandleWriter<W> {
    sink: W,
    header: Header,
    page: u64,
    /// A write failed: nobody knows how much of it is there.
    is_broken: bool,
}

impl<W: Write> HandleWriter<W> {
    /// Writes everything in front of the pages.
    pub fn new(sink: W, manifest: &HandleManifest) -> Result<Self, HandleFault> {
        Self::begun(sink, &Front::encode(manifest)?)
    }

    pub(super) fn begun(mut sink: W, front: &Front) -> Result<Self, HandleFault> {
        sink.write_all(&front.bytes)?;
        Ok(HandleWriter { sink, header: front.header, page: 0, is_broken: false })
    }

    /// Of the whole file.
    pub fn file_bytes(&self) -> u64 {
        self.header.file_bytes
    }

    /// The next page, table by table as the manifest lists them.
    pub fn write_page(&mut self, page: &[u8]) -> Result<(), HandleFault> {
        let Header { pages, page_bytes, .. } = self.header;
        if self.page == pages {
            return Err(HandleFault::TooManyPages { page: self.page, pages });
        }
        if page.len() as u64 != page_bytes {
            return Err(HandleFault::WrongPageBytes { bytes: page.len(), want_bytes: page_bytes });
        }
        if self.is_broken {
            return Err(io::Error::other("an earlier page could not be written").into());
        }
        self.is_broken = true;
        self.sink.write_all(page)?;
        self.sink.write_all(&page_checksum(page, self.page))?;
        self.is_broken = false;
        self.page += 1;
        Ok(())
    }

    /// All pages were written: gives back where they went, flushed.
    pub fn finish(mut self) -> Result<W, HandleFault> {
        if self.page < self.header.pages {
            let want_pages = self.header.pages;
            return Err(HandleFault::TooFewPages { pages: self.page, want_pages });
        }
        self.sink.flush()?;
        Ok(self.sink)
    }
}
