//! One sample.

pub(crate) fn mask(from: f32, to: f32, columns: usize, out: &mut [f32]) {
    // A length that is negative or no number becomes 0.
    let [from, to] = [from, to].map(|length| length as usize);
    for (row, out) in out.chunks_exact_mut(columns).enumerate() {
        for (column, out) in out.iter_mut().enumerate() {
            *out = f32::from(u8::from(row < from && column < to));
        }
    }
}
