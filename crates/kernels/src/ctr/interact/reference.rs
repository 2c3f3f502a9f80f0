//! One sample, in plain order; products are summed in f64, so that it can serve as the truth.

pub(crate) fn interact(x: &[f32], embeddings: &[f32], out: &mut [f32]) {
    let vectors: Vec<&[f32]> = [x].into_iter().chain(embeddings.chunks_exact(x.len())).collect();
    let products = (1..vectors.len())
        .flat_map(|j| (0..j).map(move |i| (i, j)))
        .map(|(i, j)| dot(vectors[i], vectors[j]));
    let numbers = x.iter().copied().chain(products).chain([0.0]);
    out.iter_mut().zip(numbers).for_each(|(out, number)| *out = number);
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
}
