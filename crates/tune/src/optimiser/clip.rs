//! Gradients that are too large together are scaled down together.

use crate::model::{Gradients, ParameterId, ParameterInfo};

/// Keeps the Euclidean norm of all gradients together within `norm_most`; gives what it was.
pub fn clip_gradients(
    gradients: &mut Gradients,
    parameters: &[ParameterInfo],
    norm_most: f64,
) -> f64 {
    let squares = gradients.all().flatten().map(|x| f64::from(*x).powi(2));
    let norm = squares.sum::<f64>().sqrt();
    // As PyTorch has it, so that no gradient at all divides by something.
    let factor = norm_most / (norm + 1e-6);
    if factor < 1.0 {
        for index in 0..parameters.len() {
            let numbers = gradients.numbers_mut(ParameterId::of(index)).iter_mut();
            numbers.for_each(|x| *x *= factor as f32);
        }
    }
    norm
}

#[cfg(test)]
mod tests {
    use terrace_golden::GoldenTensors;
    use terrace_testkit::golden_set;

    use super::*;
    use crate::exact_ops::exact_ops;

    #[test]
    fn norms_are_clipped_as_pytorch_does() {
        let path = golden_set("tune").join("optimisers.safetensors");
        let tensors = GoldenTensors::read(&path).unwrap();
        for scale in ["0.1", "10.0"] {
            let of = |name: String| tensors.f32s(&name).unwrap().to_vec();
            let before = [0, 1].map(|i| of(format!("clip.{scale}.{i}")));
            let info = |x: &Vec<f32>| ParameterInfo { name: String::new(), shape: vec![x.len()] };
            let infos: Vec<_> = before.iter().map(info).collect();
            let ops = exact_ops();
            let ops = ops.tuning().unwrap();
            let mut gradients = Gradients::zeros(&ops, &infos).unwrap();
            for (index, numbers) in before.iter().enumerate() {
                gradients.numbers_mut(ParameterId::of(index)).copy_from_slice(numbers);
            }
            let norm = clip_gradients(&mut gradients, &infos, 1.0);
            assert!((norm as f32 - of(format!("clip.{scale}.norm"))[0]).abs() <= 1e-5);
            for index in 0..infos.len() {
                let want = of(format!("clip.{scale}.{index}.after"));
                for (got, want) in gradients.numbers(ParameterId::of(index)).iter().zip(want) {
                    assert!((got - want).abs() <= 1e-6, "{scale}: {got} is not {want}");
                }
            }
        }
    }
}
