//! The keys or the values of a layer, as kernels find them: the twin of `hstu_pages.cuh`.

use terrace_device::DType;
use terrace_device::cuda::PageBoxes;

use crate::cuda::{extent, kernel_params};
use crate::pages::page_layout::PageLayout;

kernel_params! {
    /// Twin of `PageSide`.
    pub(super) struct PageSide: 32 bytes {
        start: u64,
        page_bytes: u64,
        scales: u64,
        page_tokens: u32,
        dim: u32,
    }
}

/// A layer's keys and values.
#[derive(Clone, Copy)]
pub(super) struct LayerSides {
    pub keys: PageSide,
    pub values: PageSide,
}

impl LayerSides {
    /// In pages from `address` on, `page_bytes` from one to the next.
    pub(super) fn new(address: u64, page_bytes: usize, layout: &PageLayout, layer: usize) -> Self {
        let side = |offset: usize, dim: usize| PageSide {
            start: address + offset as u64,
            page_bytes: page_bytes as u64,
            scales: layout.scales_offset(dim) as u64,
            page_tokens: extent(layout.page_tokens),
            dim: extent(dim),
        };
        LayerSides {
            keys: side(layout.key_offset(layer), layout.key_dim),
            values: side(layout.value_offset(layer), layout.value_dim),
        }
    }

    /// Whether 16 bytes can be read at every eighth number of bf16 rows, and 8 bytes at those of
    /// rows of bytes.
    pub(super) fn are_aligned(&self) -> bool {
        [self.keys, self.values].iter().all(|side| {
            (side.start | side.page_bytes).is_multiple_of(16) && side.dim.is_multiple_of(8)
        })
    }
}

impl PageSide {
    /// What the copy engine needs to know of `pages` pages of bf16 numbers; `None` where it cannot
    /// count from one to the next.
    pub(super) fn boxes(&self, pages: usize, heads: usize, box_tokens: usize) -> Option<PageBoxes> {
        let (dim, page_tokens) = (self.dim as usize, self.page_tokens as usize);
        let head_bytes = page_tokens * dim * DType::Bf16.bytes();
        let page_bytes = self.page_bytes as usize;
        let is_whole = page_bytes.is_multiple_of(head_bytes) && self.start.is_multiple_of(16);
        is_whole.then(|| PageBoxes {
            address: self.start,
            pages,
            page_heads: page_bytes / head_bytes,
            heads,
            page_tokens,
            dim,
            box_tokens: page_tokens.min(box_tokens),
        })
    }
}

/// As `PageKind` in the kernels.
pub(super) fn page_kind(dtype: DType) -> u32 {
    match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::Bf16 => 2,
        DType::F8E4m3 => 3,
        DType::F8E5m2 => 4,
        DType::I8 => 5,
        other => panic!("pages of {}", other.name()),
    }
}
