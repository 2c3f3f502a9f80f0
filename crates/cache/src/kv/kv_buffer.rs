//! The bytes of the pages. Who holds which page is not known here, nor what is in it.

use terrace_device::{Buffer, DType, Device, Error, ViewMut};

pub struct KvBuffer {
    page_bytes: usize,
    pages: usize,
    buffer: Buffer,
}

impl KvBuffer {
    pub fn new(device: &Device, page_bytes: usize, pages: usize) -> Result<Self, Error> {
        let bytes = pages.saturating_mul(page_bytes);
        Ok(KvBuffer { page_bytes, pages, buffer: device.take(bytes, "kv pages")? })
    }

    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    pub fn pages(&self) -> usize {
        self.pages
    }

    pub fn bytes(&self) -> usize {
        self.pages * self.page_bytes
    }

    /// u8 `[pages, page_bytes]`
    pub fn pages_mut(&mut self) -> ViewMut<'_> {
        self.buffer.view_mut(DType::U8, [self.pages, self.page_bytes])
    }
}
