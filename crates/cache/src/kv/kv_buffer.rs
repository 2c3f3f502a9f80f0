//! The bytes of the pages. Who holds which page is not known here.

use terrace_device::{Buffer, DType, Device, Error, ViewMut};
use terrace_kernels::PageLayout;

pub struct KvBuffer {
    layout: PageLayout,
    pages: usize,
    buffer: Buffer,
}

impl KvBuffer {
    pub fn new(device: &Device, layout: PageLayout, pages: usize) -> Result<Self, Error> {
        let bytes = pages.saturating_mul(layout.page_bytes());
        Ok(KvBuffer { layout, pages, buffer: device.take(bytes, "kv pages")? })
    }

    pub fn layout(&self) -> PageLayout {
        self.layout
    }

    pub fn pages(&self) -> usize {
        self.pages
    }

    /// u8 `[pages, page_bytes]`
    pub fn pages_mut(&mut self) -> ViewMut<'_> {
        self.buffer.view_mut(DType::U8, [self.pages, self.layout.page_bytes()])
    }
}
