//! One head, pair by pair.

#[inline(always)]
pub(crate) fn rotate_halves(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let pairs = cos.len();
    let (first, rest) = head.split_at_mut(pairs);
    let second = &mut rest[..pairs];
    for i in 0..pairs {
        let (a, b) = (first[i], second[i]);
        first[i] = a * cos[i] - b * sin[i];
        second[i] = b * cos[i] + a * sin[i];
    }
}

/// The transpose of a rotation, which is its gradient: the other way round, and scaled alike.
#[inline(always)]
pub(crate) fn unrotate_halves(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    let pairs = cos.len();
    let (first, rest) = head.split_at_mut(pairs);
    let second = &mut rest[..pairs];
    for i in 0..pairs {
        let (a, b) = (first[i], second[i]);
        first[i] = a * cos[i] + b * sin[i];
        second[i] = b * cos[i] - a * sin[i];
    }
}

#[inline(always)]
pub(crate) fn unrotate_interleaved(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    for ((pair, cos), sin) in head.chunks_exact_mut(2).zip(cos).zip(sin) {
        let (a, b) = (pair[0], pair[1]);
        pair[0] = a * cos + b * sin;
        pair[1] = b * cos - a * sin;
    }
}

#[inline(always)]
pub(crate) fn rotate_interleaved(head: &mut [f32], cos: &[f32], sin: &[f32]) {
    for ((pair, cos), sin) in head.chunks_exact_mut(2).zip(cos).zip(sin) {
        let (a, b) = (pair[0], pair[1]);
        pair[0] = a * cos - b * sin;
        pair[1] = b * cos + a * sin;
    }
}
