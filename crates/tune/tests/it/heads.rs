//! Head models: their gradients against finite differences, and one of one's own.

use terrace_kernels::random::SplitMix;
use terrace_tune::head::{
    Head, HeadBatch, HeadChunk, HeadModel, Pooling, SequenceClassification,
    SequenceClassificationOnLogits,
};
use terrace_tune::{
    Batch, GradientPass, Gradients, LoraKind, LoraOptions, LoraTargets, Training, TunedModel,
};

use crate::small_model::{Shape, SmallModel, VOCAB, batch, ops, options};

const SHAPE: Shape = Shape {
    layers: 2,
    heads: 2,
    kv_heads: 1,
    head_dim: 4,
    hidden: 6,
    biased: true,
    head_norms: false,
    tied: false,
};
const TOKENS: usize = 21;

/// The square of what all logits of a sequence have as their mean, which is known after its last
/// token; a state for each sequence.
struct SquaredMean;

struct Sums {
    sums: Vec<f64>,
    tokens: usize,
}

impl HeadModel for SquaredMean {
    fn needs_logits(&self) -> bool {
        true
    }

    fn num_target_entries(&self, targets: &[i32]) -> Option<usize> {
        Some(targets.len())
    }

    fn batch(&self, seqs: usize) -> Box<dyn HeadBatch + '_> {
        Box::new(Sums { sums: vec![0.0; seqs], tokens: 0 })
    }
}

impl HeadBatch for Sums {
    fn forward(&mut self, chunk: &HeadChunk<'_>) -> Vec<f64> {
        assert_eq!(chunk.input_pos, self.tokens, "chunks come from left to right");
        assert_eq!(chunk.width, VOCAB);
        for (sum, logits) in self.sums.iter_mut().zip(chunk.seqs()) {
            *sum += logits.iter().map(|x| f64::from(*x)).sum::<f64>();
        }
        self.tokens += chunk.tokens;
        let is_last = self.tokens == TOKENS;
        assert_eq!(chunk.targets.is_some(), is_last, "one target, of the last token");
        self.sums.iter().map(|sum| if is_last { sum * sum } else { 0.0 }).collect()
    }

    fn backward(
        &mut self,
        chunk: &HeadChunk<'_>,
        d_losses: &[f64],
        d_outputs: &mut [f32],
        _d_parameters: &mut [&mut [f32]],
    ) {
        let each = d_outputs.chunks_exact_mut(chunk.tokens * chunk.width);
        for ((d_outputs, sum), d_loss) in each.zip(&self.sums).zip(d_losses) {
            d_outputs.fill((2.0 * sum * d_loss) as f32);
        }
    }
}

/// Moves each array of the model in a random direction, and holds what the loss does to what its
/// gradient says.
fn check(name: &str, shape: Shape, training: Training, head: Head) {
    let ops = ops();
    let tune = ops.tuning().expect("a small case");
    let small = SmallModel::new(shape, TOKENS, 5);
    let mut model = small.try_headed(&tune, training, head).expect("a small case");
    let cache = small.cache("lastrec-default", 12, 4);
    let [ids, _] = batch(TOKENS, 1, 3);
    let targets = [2, 0];
    let batch = Batch { seqs: 2, ids: &ids, targets: &targets };
    // Several positions at a time, and not all.
    let mut options = options(1, 1.0);
    options.logits_most = 2 * 4 * VOCAB;
    let pass = |model: &TunedModel, gradients: Option<&mut Gradients>| {
        let spec = &small.spec;
        let pass = GradientPass { ops: tune, model, spec, cache: &cache, options };
        match gradients {
            Some(gradients) => pass.run(&batch, gradients).expect("a small case").loss,
            None => pass.loss(&batch).expect("a small case"),
        }
    };
    let mut gradients = model.gradients(&tune).expect("a small case");
    let loss = pass(&model, Some(&mut gradients));
    assert_eq!(loss, pass(&model, None), "{name}: the loss alone");
    let mut random = SplitMix::new(9);
    for (index, info) in model.parameters().to_vec().iter().enumerate() {
        let id = model.find(&info.name).expect("it is there");
        assert_eq!(id.index(), index);
        let count = info.shape.iter().product();
        let direction: Vec<f32> = random.numbers(count);
        let size = 1e-2 / direction.iter().map(|x| x * x).sum::<f32>().sqrt();
        let mut moved = |by: f32| {
            model
                .change(&tune, &mut |at, numbers| {
                    if at == id {
                        numbers.iter_mut().zip(&direction).for_each(|(x, d)| *x += by * size * d);
                    }
                })
                .expect("the host's arrays");
            let loss = pass(&model, None);
            model
                .change(&tune, &mut |at, numbers| {
                    if at == id {
                        numbers.iter_mut().zip(&direction).for_each(|(x, d)| *x -= by * size * d);
                    }
                })
                .expect("the host's arrays");
            loss
        };
        let slope = (moved(1.0) - moved(-1.0)) / 2.0;
        let product: f32 = gradients.numbers(id).iter().zip(&direction).map(|(g, d)| g * d).sum();
        let want = f64::from(product * size);
        let slack = 1e-6 + 2e-2 * want.abs();
        assert!((slope - want).abs() <= slack, "{name}, {}: {slope} is not {want}", info.name);
    }
}

#[test]
fn gradients_are_slopes_of_losses() {
    let tied = Shape { tied: true, ..SHAPE };
    let on_logits = || Head::Model(Box::new(SequenceClassificationOnLogits::new(&[3, 7, 11])));
    check("classes on logits", SHAPE, Training::Full, on_logits());
    check("classes on a tied head's logits", tied, Training::Full, on_logits());
    for pooling in [Pooling::Last, Pooling::Mean] {
        let model = SequenceClassification::new(SHAPE.hidden, 3, pooling, 1);
        let name = format!("classes of outputs, {pooling:?}");
        check(&name, SHAPE, Training::Full, Head::Model(Box::new(model)));
    }
    check("one's own", SHAPE, Training::Full, Head::Model(Box::new(SquaredMean)));
}

fn lora(head: bool) -> Training {
    let targets = LoraTargets { head, ..LoraTargets::QUERY_VALUE };
    let kind = LoraKind::Default;
    Training::Lora(LoraOptions { rank: 2, alpha: 4.0, kind, targets, dropout: 0.0, seed: 7 })
}

#[test]
fn a_head_model_is_trained_beside_branches() {
    let on_logits = SequenceClassificationOnLogits::new(&[3, 7, 11]);
    check("a branch of the head", SHAPE, lora(true), Head::Model(Box::new(on_logits)));
    let classes = SequenceClassification::new(SHAPE.hidden, 3, Pooling::Last, 1);
    check("branches below classes", SHAPE, lora(false), Head::Model(Box::new(classes)));
}

#[test]
fn the_models_own_head_is_not_trained_where_it_is_not_used() {
    let ops = ops();
    let tune = ops.tuning().expect("a small case");
    let small = SmallModel::new(SHAPE, TOKENS, 5);
    let classes = || SequenceClassification::new(SHAPE.hidden, 3, Pooling::Last, 1);
    let head = Head::Model(Box::new(classes()));
    let model = small.try_headed(&tune, Training::Full, head).expect("a small case");
    assert!(model.find("lm_head.weight").is_none());
    assert!(model.find("head_model.weight").is_some());
    let head = Head::Model(Box::new(classes()));
    let error = small.try_headed(&tune, lora(true), head).err().expect("refused").to_string();
    assert!(error.contains("leave lora.head out"), "{error}");
}

#[test]
fn classes_that_there_are_not_are_refused() {
    let ops = ops();
    let tune = ops.tuning().expect("a small case");
    let small = SmallModel::new(SHAPE, TOKENS, 5);
    let head = Head::Model(Box::new(SequenceClassificationOnLogits::new(&[3, 7, 11])));
    let model = small.try_headed(&tune, Training::Full, head).expect("a small case");
    let cache = small.cache("lastrec-default", 12, 4);
    let [ids, _] = batch(TOKENS, 1, 3);
    let pass = GradientPass {
        ops: tune,
        model: &model,
        spec: &small.spec,
        cache: &cache,
        options: options(1, 1.0),
    };
    let refused = |targets: &[i32]| {
        let batch = Batch { seqs: 2, ids: &ids, targets };
        pass.loss(&batch).expect_err("wrong targets").to_string()
    };
    let error = refused(&[1, 3]);
    assert!(error.contains("the class is 3, and there are 3"), "{error}");
    let error = refused(&[1, 1, 2, 2]);
    assert!(error.contains("2 targets of a sequence that has one class"), "{error}");
}
