//! One query and its slots, one slot at a time.

/// What a query sees of the slots, one of each for each slot.
pub(crate) struct SlotRows<'a> {
    /// Whether it sees a slot.
    pub(crate) sees: &'a dyn Fn(usize) -> bool,
    /// The query as the slot's key meets it.
    pub(crate) query: &'a dyn Fn(usize) -> &'a [f32],
    /// Writes the slot's key, or value.
    pub(crate) key: &'a dyn Fn(usize, &mut [f32]),
    pub(crate) value: &'a dyn Fn(usize, &mut [f32]),
}

/// weights: `[slots]`, written · row: memory for a key or a value · out: `[value_dim]`
pub(crate) fn attend(
    slots: &SlotRows<'_>,
    scale: f32,
    weights: &mut [f32],
    row: &mut [f32],
    out: &mut [f32],
) {
    for (slot, weight) in weights.iter_mut().enumerate() {
        *weight = f32::NEG_INFINITY;
        if (slots.sees)(slot) {
            let query = (slots.query)(slot);
            let key = &mut row[..query.len()];
            (slots.key)(slot, key);
            let products = query.iter().zip(key).map(|(q, k)| f64::from(*q) * f64::from(*k));
            *weight = products.sum::<f64>() as f32 * scale;
        }
    }
    softmax(weights);
    out.fill(0.0);
    for (slot, weight) in weights.iter().enumerate() {
        let value = &mut row[..out.len()];
        (slots.value)(slot, value);
        for (out, value) in out.iter_mut().zip(value) {
            *out += weight * *value;
        }
    }
}

fn softmax(scores: &mut [f32]) {
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores.iter_mut().for_each(|score| *score = (*score - most).exp());
    let total = scores.iter().map(|score| f64::from(*score)).sum::<f64>() as f32;
    scores.iter_mut().for_each(|score| *score /= total);
}
