//! A request as HugeCTR's clients send it: samples in variant compressed sparse rows.

/// Keys of a sample stand together, table by table, slot by slot. Offsets stand together by table:
/// for each one `samples * slots + 1`, which begin with 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VcsrRequest {
    /// `DES`: `[samples, dense features]`
    pub dense: Vec<f32>,
    /// `CATCOLUMN`
    pub keys: Vec<i64>,
    /// `ROWINDEX`
    pub row_offsets: Vec<i32>,
}
