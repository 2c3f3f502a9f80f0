//! Number by number.

/// x: rows of any length · out: all of their numbers
pub(crate) fn arrange<'a>(x: impl Iterator<Item = &'a [f32]>, out: &mut [f32]) {
    for (out, x) in out.iter_mut().zip(x.flatten()) {
        *out = *x;
    }
}
