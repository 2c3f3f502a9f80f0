//! A matrix as Hopper's copy engine sees it: boxes of it are brought to shared memory by one
//! instruction.

use cudarc::driver::sys::{
    self, CUresult, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill,
    CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapSwizzle,
};

use super::call::message_of;
use crate::dtype::DType;
use crate::error::Error;
use crate::view::View;

/// Twin of `TensorMap` in the kernels: opaque, passed by value.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct TensorMap {
    words: [u64; 16],
}

/// Columns that the engine takes at once.
const CHUNK: u64 = 64;
/// Rows that it exchanges words among.
const EIGHT: u64 = 8;
/// Of a number.
const BYTES: u64 = DType::Bf16.bytes() as u64;

impl TensorMap {
    /// For kernels that copy without the engine.
    pub const NONE: TensorMap = TensorMap { words: [0; 16] };

    /// Boxes of a bf16 matrix `[rows, columns]`, whose rows may be strided: some chunks of 64
    /// columns of some rows, chunk by chunk, each row of a chunk with its eight 16-byte words
    /// exchanged by its number. Rows and chunks outside the matrix read as zeros; the last chunk of
    /// a row that does not end with it reads on.
    pub fn boxes(matrix: View<'_>, box_rows: u32, box_chunks: u32) -> Result<Self, Error> {
        let [rows, columns] = matrix.dims();
        assert_eq!(matrix.dtype(), DType::Bf16, "boxes of a matrix");
        let extents = [CHUNK, rows as u64, (columns as u64).div_ceil(CHUNK)];
        let strides = [matrix.row_stride() as u64 * BYTES, CHUNK * BYTES];
        let box_extents = [CHUNK as u32, box_rows, box_chunks];
        let map = encode(matrix.device_address(), extents, strides, box_extents);
        map.map_err(|code| failed(code, || format!("a {rows}x{columns} matrix")))
    }

    /// Boxes of one head's tokens in pages. A box has eights of tokens, each chunk of 64 columns by
    /// chunk, with the words of each row exchanged as [`boxes`](Self::boxes) has them. Head `h` of
    /// page `p` is number `p * page_heads + h` of the last dimension.
    pub fn page_boxes(pages: &PageBoxes) -> Result<Self, Error> {
        let PageBoxes { address, pages: count, page_heads, heads, page_tokens, dim, .. } = *pages;
        let [eights, chunks] = [page_tokens as u64 / EIGHT, dim as u64 / CHUNK];
        let all_heads = (count.max(1) - 1) * page_heads + heads;
        let extents = [CHUNK, EIGHT, chunks, eights, all_heads as u64];
        let row = dim as u64 * BYTES;
        let strides = [row, CHUNK * BYTES, EIGHT * row, page_tokens as u64 * row];
        let box_eights = pages.box_tokens as u32 / EIGHT as u32;
        let box_extents = [CHUNK as u32, EIGHT as u32, chunks as u32, box_eights, 1];
        let map = encode(address, extents, strides, box_extents);
        map.map_err(|code| failed(code, || format!("{count} pages of {page_tokens} tokens")))
    }
}

/// Pages of bf16 `[heads, page_tokens, dim]`, one kind of number of one layer.
#[derive(Clone, Copy, Debug)]
pub struct PageBoxes {
    /// Of the first head in the first page, on the device.
    pub address: u64,
    pub pages: usize,
    /// From one page to the next, counted in what one head takes.
    pub page_heads: usize,
    pub heads: usize,
    /// A multiple of 8.
    pub page_tokens: usize,
    /// A multiple of 64.
    pub dim: usize,
    /// Tokens of a box, of one page; a multiple of 8.
    pub box_tokens: usize,
}

/// A map of bf16 numbers; the first dimension is dense, the others `strides` bytes apart.
fn encode<const RANK: usize, const OUTER: usize>(
    address: u64,
    extents: [u64; RANK],
    strides: [u64; OUTER],
    box_extents: [u32; RANK],
) -> Result<TensorMap, CUresult> {
    const { assert!(OUTER + 1 == RANK) };
    let steps = [1; RANK];
    let mut map = CUtensorMap { opaque: [0; 16] };
    // SAFETY: arrays of the rank given; the address is only written down.
    let code = unsafe {
        sys::cuTensorMapEncodeTiled(
            &raw mut map,
            CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            RANK as u32,
            address as *mut _,
            extents.as_ptr(),
            strides.as_ptr(),
            box_extents.as_ptr(),
            steps.as_ptr(),
            CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    match code {
        CUresult::CUDA_SUCCESS => Ok(TensorMap { words: map.opaque }),
        code => Err(code),
    }
}

fn failed(code: CUresult, what: impl Fn() -> String) -> Error {
    let what = format!("describing {} to the copy engine", what());
    Error::Cuda { what, message: message_of(code) }
}
