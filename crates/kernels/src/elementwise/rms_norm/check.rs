//! What the shapes of a norm must be.

use terrace_device::View;

#[track_caller]
pub(super) fn check(x: View<'_>, weight: View<'_>) {
    let (shape, [dim]) = (x.shape(), weight.dims());
    let dims = shape.dims();
    assert!(matches!(dims.len(), 2 | 3), "rms_norm over shape {shape:?}");
    assert_eq!(dims.last(), Some(&dim), "weight of rms_norm");
}
