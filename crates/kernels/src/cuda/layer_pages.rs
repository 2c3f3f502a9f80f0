//! What kernels know of pages: the twins of `pages.cuh`.

use terrace_device::DType;

use super::{extent, kernel_params};
use crate::pages::page_layout::PageLayout;
use crate::pages::paged_kv::PagedKv;

kernel_params! {
    /// The pages of one group of layers, at one of its layers.
    pub(crate) struct LayerPages: 40 bytes {
        pages: u64,
        page_bytes: u64,
        key_offset: u64,
        value_offset: u64,
        page_tokens: u32,
        kv_heads: u32,
    }
}

impl LayerPages {
    pub(crate) const NONE: LayerPages = LayerPages {
        pages: 0,
        page_bytes: 0,
        key_offset: 0,
        value_offset: 0,
        page_tokens: 0,
        kv_heads: 0,
    };

    pub(crate) fn new(kv: &PagedKv<'_>, layer: usize) -> Self {
        let (layout, [_, page_bytes]) = (kv.layout, kv.pages.dims());
        assert!(layout.page_bytes() <= page_bytes, "pages do not fit their layout");
        Self::at(kv.pages.device_address(), page_bytes, &layout, layer)
    }

    /// Pages that begin at `address`, `page_bytes` from one to the next.
    pub(crate) fn at(address: u64, page_bytes: usize, layout: &PageLayout, layer: usize) -> Self {
        LayerPages {
            pages: address,
            page_bytes: page_bytes as u64,
            key_offset: layout.key_offset(layer) as u64,
            value_offset: layout.value_offset(layer) as u64,
            page_tokens: extent(layout.page_tokens),
            kv_heads: extent(layout.kv_heads),
        }
    }
}

/// The name of the variant of a kernel file for pages of this type.
pub(crate) fn page_variant(page: DType) -> &'static str {
    match page {
        DType::F32 => "f32",
        DType::F16 => "f16",
        DType::Bf16 => "bf16",
        DType::F8E4m3 => "e4m3",
        DType::F8E5m2 => "e5m2",
        DType::I8 => "int8",
        other => panic!("pages of {}", other.name()),
    }
}

/// What queries over such pages are stored as: what the tensor cores multiply.
pub(crate) fn query_dtype(page: DType) -> DType {
    match page {
        DType::F8E4m3 | DType::F8E5m2 => DType::F16,
        other => other,
    }
}
