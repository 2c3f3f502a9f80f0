//! One row.

/// `out *= scale`, and rows of other tables added to it.
pub(crate) fn scale_and_add<'a>(
    out: &mut [f32],
    scale: f32,
    added: impl Iterator<Item = &'a [f32]>,
) {
    out.iter_mut().for_each(|out| *out *= scale);
    for row in added {
        out.iter_mut().zip(row).for_each(|(out, x)| *out += x);
    }
}
