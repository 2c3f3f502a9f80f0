//! What codes stand for, as a GPU's kernels take it: the twin of `Book` in `slots.cuh`.

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct CodeTable {
    pub(super) values: [f32; 256],
    /// The middles between neighbours in ascending order; infinity behind the last.
    pub(super) borders: [f32; 256],
    /// The codes in that order.
    pub(super) ascending: [i32; 256],
}

impl CodeTable {
    pub(super) fn of_values(values: &[f32]) -> Self {
        let mut table =
            CodeTable { values: [0.0; 256], borders: [f32::INFINITY; 256], ascending: [0; 256] };
        table.values[..values.len()].copy_from_slice(values);
        table
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let numbers = self.values.iter().chain(&self.borders).map(|x| x.to_bits());
        let codes = self.ascending.iter().map(|code| code.cast_unsigned());
        numbers.chain(codes).flat_map(u32::to_le_bytes).collect()
    }
}
