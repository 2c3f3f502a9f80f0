//! What kernels know of slots: the twins of `slots.cuh`.

use std::sync::Arc;

use terrace_device::cuda::CudaDevice;
use terrace_device::{Buffer, DType, Device};

use super::{extent, kernel_params};
use crate::error::Error;
use crate::pages::row_format::RowFormat;
use crate::pages::slot_kv::SlotKv;
use crate::pages::slot_rule::SlotRule;
use crate::quantise::Quantiser;

/// What the codes of quantisers stand for, on the device.
pub(crate) struct CodeBooks {
    books: Buffer,
}

impl CodeBooks {
    /// In the order of the formats.
    const QUANTISERS: [Quantiser; 3] = [Quantiser::Dynamic8, Quantiser::Float4, Quantiser::Fp8];

    pub(crate) fn place(device: &Arc<CudaDevice>) -> Result<Self, Error> {
        let tables = Self::QUANTISERS.into_iter().filter_map(Quantiser::code_table);
        let bytes: Vec<u8> = tables.flat_map(|table| table.bytes()).collect();
        let mut books = Device::Cuda(Arc::clone(device)).take(bytes.len(), "code books")?;
        device.write(&books.view_mut(DType::U8, [bytes.len()]), &bytes)?;
        Ok(CodeBooks { books })
    }

    pub(crate) fn address(&self) -> u64 {
        self.books.view(DType::U8, [1]).device_address()
    }
}

kernel_params! {
    /// The pages of one group of layers, at one of its layers.
    pub(crate) struct LayerSlots: 88 bytes {
        pages: u64,
        page_bytes: u64,
        books: u64,
        keys: Side,
        values: Side,
        positions: u32,
        /// 0 for none, as the next two.
        scores: u32,
        value_norms: u32,
        errors: u32,
        page_slots: u32,
        kv_heads: u32,
        dim: u32,
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Side {
    numbers: u32,
    scales: u32,
    format: u32,
    row_bytes: u32,
}

impl LayerSlots {
    pub(crate) fn new(kv: &SlotKv<'_>, layer: usize, books: &CodeBooks) -> Self {
        let (layout, [_, page_bytes]) = (kv.layout, kv.pages.dims());
        assert!(layout.page_bytes() <= page_bytes, "pages of {page_bytes} bytes are too short");
        assert!(page_bytes.is_multiple_of(16), "pages of {page_bytes} bytes: not a multiple of 16");
        let (offsets, notes) = (layout.offsets(layer), layout.notes);
        let note = |wanted: bool, offset: usize| if wanted { extent(offset) } else { 0 };
        let side = |format: RowFormat, numbers: usize, scales: usize| Side {
            numbers: extent(numbers),
            scales: extent(scales),
            format: format_number(format),
            row_bytes: extent(format.row_bytes(layout.key_dim)),
        };
        LayerSlots {
            pages: kv.pages.device_address(),
            page_bytes: page_bytes as u64,
            books: books.address(),
            keys: side(layout.keys, offsets.keys, offsets.key_scales),
            values: side(layout.values, offsets.values, offsets.value_scales),
            positions: extent(offsets.positions),
            scores: note(notes.scores, offsets.scores),
            value_norms: note(notes.value_norms, offsets.value_norms),
            errors: note(notes.errors, offsets.errors),
            page_slots: extent(layout.page_slots),
            kv_heads: extent(layout.kv_heads),
            dim: extent(layout.key_dim),
        }
    }
}

/// As `RowFormat` in `slots.cuh`.
pub(crate) fn format_number(format: RowFormat) -> u32 {
    match format {
        RowFormat::F32 => 0,
        RowFormat::F16 => 1,
        RowFormat::Bf16 => 2,
        RowFormat::Quantised(Quantiser::Asymmetric8) => 3,
        RowFormat::Quantised(Quantiser::Asymmetric4) => 4,
        RowFormat::Quantised(Quantiser::Dynamic8) => 5,
        RowFormat::Quantised(Quantiser::Float4) => 6,
        RowFormat::Quantised(Quantiser::Fp8) => 7,
    }
}

kernel_params! {
    /// The live rows of a step, by their sequences.
    pub(crate) struct LiveRows: 40 bytes {
        rules: u64,
        /// 0 where every sequence has one row, as the next one.
        live_starts: u64,
        row_seqs: u64,
        block_tables: u64,
        table_stride: u32,
        singles: u32,
    }
}

impl LiveRows {
    pub(crate) fn new(kv: &SlotKv<'_>) -> Self {
        let ([_, tokens, _], seqs) = (kv.slots.dims::<3>(), kv.seqs());
        let [table_seqs, _] = kv.block_tables.dims();
        assert_eq!(kv.rules.dims(), [seqs, SlotRule::WORDS], "rules");
        assert_eq!(kv.rules.row_stride(), SlotRule::WORDS, "rules are strided");
        assert_eq!(table_seqs, seqs, "block tables");
        assert!(kv.singles <= seqs && kv.singles <= tokens, "{} single rows", kv.singles);
        let all_single = kv.singles == tokens;
        if !all_single {
            assert_eq!(kv.live_starts.dims(), [seqs + 1], "live_starts");
            assert_eq!(kv.row_seqs.dims(), [tokens], "row_seqs");
        }
        let unless_single = |address: u64| if all_single { 0 } else { address };
        LiveRows {
            rules: kv.rules.device_address(),
            live_starts: unless_single(kv.live_starts.device_address()),
            row_seqs: unless_single(kv.row_seqs.device_address()),
            block_tables: kv.block_tables.device_address(),
            table_stride: extent(kv.block_tables.row_stride()),
            singles: extent(kv.singles),
        }
    }
}
