//! A matrix as Hopper's copy engine sees it: boxes of it are brought to shared memory by one
//! instruction.

use cudarc::driver::sys::{
    self, CUtensorMap, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapInterleave,
    CUtensorMapL2promotion, CUtensorMapSwizzle,
};

use super::call::check;
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

impl TensorMap {
    /// For kernels that copy without the engine.
    pub const NONE: TensorMap = TensorMap { words: [0; 16] };

    /// Boxes of a dense bf16 matrix `[rows, columns]`: some chunks of 64 columns of some rows,
    /// chunk by chunk, each row of a chunk with its eight 16-byte words exchanged by its number.
    /// Rows and chunks outside the matrix read as zeros; the last chunk of a row that does not end
    /// with it reads on.
    pub fn boxes(matrix: View<'_>, box_rows: u32, box_chunks: u32) -> Result<Self, Error> {
        let [rows, columns] = matrix.dims();
        assert_eq!(matrix.dtype(), DType::Bf16, "boxes of a matrix");
        let row_bytes = matrix.dense_bytes() / rows.max(1);
        let extents = [CHUNK, rows as u64, (columns as u64).div_ceil(CHUNK)];
        let strides = [row_bytes as u64, CHUNK * DType::Bf16.bytes() as u64];
        let box_extents = [CHUNK as u32, box_rows, box_chunks];
        let steps = [1; 3];
        let mut map = CUtensorMap { opaque: [0; 16] };
        // SAFETY: arrays of the rank given; the address is only written down.
        let code = unsafe {
            sys::cuTensorMapEncodeTiled(
                &raw mut map,
                CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                3,
                matrix.device_address() as *mut _,
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
        check(code, || format!("describing a {rows}x{columns} matrix to the copy engine"))?;
        Ok(TensorMap { words: map.opaque })
    }
}
