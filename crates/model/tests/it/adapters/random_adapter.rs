//! Adapters of random numbers.

use terrace_kernels::random::SplitMix;
use terrace_model::{Adapter, AdapterBranch, BranchVector, BranchedProduct, DecoderSpec, LoraKind};

/// With ranks and scales that differ from product to product.
pub fn random_adapter(
    spec: &DecoderSpec,
    kind: LoraKind,
    seed: u64,
    has_branch: impl Fn(BranchedProduct) -> bool,
) -> Adapter {
    let mut random = SplitMix::new(seed);
    let products = BranchedProduct::all(spec).filter(|product| has_branch(*product));
    let branches = products.enumerate().map(|(index, product)| {
        let [rows, columns] = product.shape(spec).expect("one of its own");
        let rank = 2 + index % 3;
        // Of the size that a product's other numbers have.
        let mut numbers = |count: usize, size: f32| -> Vec<f32> {
            random.numbers(count).into_iter().map(|number| number * size).collect()
        };
        let (a, b) = (numbers(rank * columns, 0.3), numbers(rows * rank, 0.3));
        let positive = |numbers: Vec<f32>| numbers.into_iter().map(|x| 0.1 + x.abs()).collect();
        let vector = match kind {
            LoraKind::Default => BranchVector::None,
            LoraKind::RmsNorm => BranchVector::Norm(numbers(rows, 0.5)),
            LoraKind::Dora => BranchVector::Lengths(positive(numbers(rows, 2.0))),
        };
        (product, AdapterBranch { rank, alpha: 1.5 + index as f64, a, b, vector })
    });
    let branches: Vec<_> = branches.collect();
    Adapter::new("random".into(), Some("llama_plain".into()), spec, branches).expect("it fits")
}
