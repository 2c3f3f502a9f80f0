//! What passes take of memory.

use terrace_kernels::Ops;
use terrace_tune::{Batch, GradientPass, Training, TunedModel};

use crate::small_model::{Shape, SmallModel, batch, ops, options};

const SHAPE: Shape = Shape {
    layers: 5,
    heads: 4,
    kv_heads: 2,
    head_dim: 16,
    hidden: 64,
    biased: false,
    head_norms: true,
    tied: true,
};
const TARGETS: usize = 7;

/// A model whose cache has so many slots, and takes so many tokens at a time.
struct Case {
    ops: Ops,
    small: SmallModel,
    model: TunedModel,
    slots: usize,
    chunk: usize,
}

impl Case {
    fn new([slots, chunk]: [usize; 2], tokens: usize) -> Self {
        let (ops, small) = (ops(), SmallModel::new(SHAPE, tokens, 3));
        let model = small.tuned(&ops.tuning().expect("a small case"), Training::Full, 3);
        Case { ops, small, model, slots, chunk }
    }

    /// The most bytes that are taken at a time in each of some passes, which give all back.
    fn peaks(&self, tokens: usize, passes: usize) -> Vec<usize> {
        let ops = self.ops.tuning().expect("a small case");
        let cache = self.small.cache("h2o-default", self.slots, self.chunk);
        let (model, spec, options) = (&self.model, &self.small.spec, options(1, 1.0));
        let pass = GradientPass { ops, model, spec, cache: &cache, options };
        let [ids, targets] = batch(tokens, TARGETS, 3);
        let batch = Batch { seqs: 2, ids: &ids, targets: &targets };
        let mut gradients = model.gradients(&ops).expect("a small case");
        let before = ops.memory().taken_bytes();
        let peaks = (0..passes).map(|_| {
            ops.memory().take_peak_bytes();
            pass.run(&batch, &mut gradients).expect("a small case");
            assert_eq!(ops.memory().taken_bytes(), before, "a pass gives back what it took");
            ops.memory().take_peak_bytes() - before
        });
        peaks.collect()
    }
}

#[test]
fn memory_is_flat_over_passes() {
    let peaks = Case::new([32, 8], 150).peaks(150, 20);
    assert!(peaks.iter().all(|peak| *peak == peaks[0]), "{peaks:?}");
}

/// With the length of a text there grow what layers are given, once for each row, keys and values
/// of one layer, and the last layer's outputs of tokens with targets and their gradients.
#[test]
fn a_longer_text_takes_one_layers_keys_and_values_more() {
    let (short, long) = (400, 800);
    let case = Case::new([32, 8], long);
    let [[short_peak], [long_peak]] =
        [short, long].map(|tokens| case.peaks(tokens, 1).try_into().expect("one pass"));
    let keys_and_values = 2 * SHAPE.kv_heads * SHAPE.head_dim;
    let inputs_and_gradients = (SHAPE.layers + 1) * SHAPE.hidden;
    let of_a_token = size_of::<f32>() * (keys_and_values + inputs_and_gradients);
    let grown = long_peak - short_peak;
    // Lengths are rounded up by an eighth at most.
    let most = 2 * (long - short) * of_a_token * 9 / 8 + 2 * long * of_a_token / 8;
    assert!(grown <= most, "{grown} bytes, at most {most}");
    assert!(2 * (long - short) * of_a_token / 2 <= grown, "{grown} bytes");
}

/// Backward walks from the last slots to the first by the rows that were overwritten: what chunks
/// leave behind does not grow with the cache.
#[test]
fn no_chunk_keeps_the_cache() {
    const SEQS: usize = 2;
    let ([small, large], chunk, tokens) = ([64, 256], 2, 600);
    let [[small_peak], [large_peak]] = [small, large].map(|slots| {
        Case::new([slots, chunk], tokens).peaks(tokens, 1).try_into().expect("one pass")
    });
    let (more, of_a_slot) = (large - small, SHAPE.kv_heads * (2 * SHAPE.head_dim + 1));
    // Of all layers keys, values and positions; a cell is as much longer, too.
    let of_a_token = 40 * SHAPE.hidden;
    let most = size_of::<f32>() * SEQS * more * (SHAPE.layers * of_a_slot + of_a_token);
    let grown = large_peak - small_peak;
    assert!(grown <= most, "{grown} bytes more, at most {most}");
    // What whole slots of each chunk of a cell would be.
    let slots_of = |slots: usize| slots / chunk * slots * of_a_slot;
    let kept = size_of::<f32>() * SEQS * (slots_of(large) - slots_of(small));
    assert!(2 * most < kept, "{most} bytes do not tell from {kept}");
}
