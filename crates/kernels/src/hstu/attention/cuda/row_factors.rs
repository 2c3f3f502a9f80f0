//! What sums over keys are multiplied by, as kernels take it.

use terrace_device::DType;

use crate::hstu::attention::attend_args::RowScale;

/// The address of a factor for each row, or 0; and the factor of all.
pub(super) fn row_factors(row_scale: RowScale<'_>) -> (u64, f32) {
    match row_scale {
        RowScale::DivideBy(divisor) => (0, 1.0 / divisor),
        RowScale::Multiply(factors) => {
            assert_eq!(factors.dtype(), DType::F32, "factors of rows");
            (factors.device_address(), 1.0)
        }
    }
}
