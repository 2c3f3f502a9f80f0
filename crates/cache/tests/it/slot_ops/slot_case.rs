//! A random batch: sequences with rules, rows and chunks of their own, in slots of one layout.

use std::sync::Arc;

use terrace_cache::golden::{DrivenSlots, RunShape, SeqOut, SeqStep, SlotArray, SlotAt};
use terrace_cache::policy::{
    HeadSlots, KeyPositions, KvPolicy, PolicyError, RecentRule, Rule, ScoredRule, SlotFormat,
    Weighting,
};
use terrace_cache::reference::ChunkRows;
use terrace_device::DType;
use terrace_kernels::{Ops, Quantiser, RowFormat, SlotLayout, SlotNotes};
use terrace_testkit::Rng;

pub struct SlotCase {
    pub shape: RunShape,
    pub formats: [SlotFormat; 2],
    pub seqs: Vec<SlotSeq>,
}

/// Scores by all that a head has, and forgets.
#[derive(Debug)]
pub struct Mixing;

impl KvPolicy for Mixing {
    fn rule(&self, slots: usize) -> Result<Rule, PolicyError> {
        Ok(Rule::Scored(ScoredRule { weighting: ALL_NOTES, ..ScoredRule::new(slots) }))
    }

    fn score(&self, head: &HeadSlots<'_>, scores: &mut [f32]) {
        let recent = |position: i32| position as f32 / head.seen_tokens as f32;
        for (slot, score) in scores.iter_mut().enumerate() {
            let gained = head.weights[slot] / head.chunk_tokens as f32;
            let noted = head.value_norms[slot] - head.errors[slot];
            *score = *score * 0.75 + gained * recent(head.positions[slot]) + noted / 64.0;
        }
    }
}

const ALL_NOTES: Weighting = Weighting::Custom { value_norms: true, errors: true };

#[derive(Clone)]
pub struct SlotSeq {
    pub policy: Arc<dyn KvPolicy>,
    pub rule: Rule,
    pub slots: usize,
    pub first_chunk: usize,
    /// Tokens of each step: the chunks, unless the first is spread.
    pub steps: Vec<usize>,
    /// Of each layer.
    pub rows: Vec<SeqRows>,
}

/// Rows of a whole sequence, `[heads][tokens][dim]`.
#[derive(Clone)]
pub struct SeqRows {
    tokens: usize,
    dim: usize,
    query: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

/// One step's rows.
pub struct StepRows {
    tokens: usize,
    query: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

/// What every sequence's steps gave, `[seqs][steps][layers]`, and what its slots hold at the end.
#[derive(Debug, PartialEq)]
pub struct Ran {
    pub outs: Vec<Vec<Vec<SeqOut>>>,
    pub held: Vec<Vec<Held>>,
}

/// What one layer's slots hold, `[kv_heads][filled]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub positions: Vec<i32>,
    pub scores: Vec<f32>,
    /// As they read.
    pub keys: Vec<Vec<f32>>,
    pub values: Vec<Vec<f32>>,
}

impl SlotCase {
    pub fn random(rng: &mut Rng, seqs: usize) -> Self {
        let rotates = rng.below(4) == 0;
        let formats = [0; 2].map(|_| if rotates { SlotFormat::Plain } else { random_format(rng) });
        let plain =
            if rotates { DType::F32 } else { *rng.pick(&[DType::F32, DType::F16, DType::Bf16]) };
        let plain = RowFormat::plain(plain).expect("a type that pages have");
        let [keys, values] =
            formats.map(|format| format.quantiser().map_or(plain, RowFormat::Quantised));
        let dim = *rng.pick(&[2, 4, 8, 16, 20]);
        let kv_heads = 1 + rng.below(3);
        let layout = SlotLayout {
            layers: 1 + rng.below(2),
            kv_heads,
            page_slots: *rng.pick(&[1, 3, 16, 64]),
            key_dim: dim,
            value_dim: dim,
            keys,
            values,
            notes: SlotNotes { scores: true, value_norms: true, errors: true },
        };
        let shape = RunShape {
            layout,
            heads: kv_heads * (1 + rng.below(4)),
            scale: 0.3,
            window: (rng.below(4) == 0).then(|| 1 + rng.below(30)),
            rotation: (0..if rotates { dim / 2 } else { 0 })
                .map(|i| 0.7f32.powi(i as i32))
                .collect(),
        };
        let errs = formats.iter().any(|format| *format != SlotFormat::Plain);
        let seqs = (0..seqs).map(|_| SlotSeq::random(rng, &shape, errs)).collect();
        SlotCase { shape, formats, seqs }
    }

    pub fn layers(&self) -> usize {
        self.shape.layout.layers
    }

    /// The same sequences in pages of another size.
    pub fn paged(&self, page_slots: usize) -> Self {
        let layout = SlotLayout { page_slots, ..self.shape.layout };
        let shape = RunShape { layout, ..self.shape.clone() };
        SlotCase { shape, formats: self.formats, seqs: self.seqs.clone() }
    }

    /// One of the sequences by itself.
    pub fn alone(&self, seq: usize) -> Self {
        let seqs = vec![self.seqs[seq].clone()];
        SlotCase { shape: self.shape.clone(), formats: self.formats, seqs }
    }

    /// All sequences side by side, each taking its next step until it has no more; `after` sees
    /// the slots after every step.
    pub fn run(&self, ops: &Ops, mut after: impl FnMut(&DrivenSlots<'_>, usize)) -> Ran {
        let slots = self.seqs.iter().map(|seq| seq.slots).max().expect("a sequence");
        let mut run =
            DrivenSlots::new(ops, self.shape.clone(), self.seqs.len(), slots).expect("memory");
        let scorer = |seq: &SlotSeq| seq.rule.scorer(&seq.policy);
        run = run.with_scorers(self.seqs.iter().map(scorer).collect());
        let mut outs = vec![Vec::new(); self.seqs.len()];
        let steps = self.seqs.iter().map(|seq| seq.steps.len()).max().expect("a sequence");
        for step in 0..steps {
            let going: Vec<usize> =
                (0..self.seqs.len()).filter(|seq| step < self.seqs[*seq].steps.len()).collect();
            let rows: Vec<Vec<StepRows>> =
                going.iter().map(|seq| self.seqs[*seq].step_rows(step)).collect();
            let taken: Vec<SeqStep<'_>> = going
                .iter()
                .zip(&rows)
                .map(|(seq, rows)| SeqStep {
                    seq: *seq,
                    rule: self.seqs[*seq].slot_rule(step),
                    rows: rows.iter().map(StepRows::chunk).collect(),
                })
                .collect();
            let got = run.step(&taken).expect("a device that works");
            going.iter().zip(got).for_each(|(seq, out)| outs[*seq].push(out));
            after(&run, step);
        }
        let held = (0..self.seqs.len()).map(|seq| self.held(&run, seq, usize::MAX)).collect();
        Ran { outs, held }
    }

    /// What a sequence's slots hold after so many steps, layer by layer.
    pub fn held(&self, run: &DrivenSlots<'_>, seq: usize, steps: usize) -> Vec<Held> {
        let slots = run.host_slots().expect("a device that works");
        let seen: usize = self.seqs[seq].steps.iter().take(steps).sum();
        let filled = seen.min(self.seqs[seq].slots);
        let of_layer = |layer: usize| {
            let heads = 0..self.shape.layout.kv_heads;
            let at = |head| move |slot| SlotAt { seq, layer, head, slot };
            let all: Vec<SlotAt> = heads.flat_map(|head| (0..filled).map(at(head))).collect();
            let score = |at: &SlotAt| slots.note(*at, SlotArray::Scores);
            Held {
                positions: all.iter().map(|at| slots.position(*at)).collect(),
                scores: all.iter().map(score).collect(),
                keys: all.iter().map(|at| slots.row(*at, SlotArray::Keys)).collect(),
                values: all.iter().map(|at| slots.row(*at, SlotArray::Values)).collect(),
            }
        };
        (0..self.layers()).map(of_layer).collect()
    }
}

impl SlotSeq {
    fn random(rng: &mut Rng, shape: &RunShape, errors: bool) -> Self {
        let slots = 4 + rng.below(60);
        let rule = random_rule(rng, slots, errors).checked(slots).expect("something can leave");
        let first_chunk = 1 + rng.below(slots);
        // A cache that the first chunk fills evicts by another rule at first.
        let first_chunk = if rng.below(3) == 0 { slots } else { first_chunk };
        let (policy, steps) = (Arc::new(Mixing), vec![first_chunk]);
        let mut seq = SlotSeq { policy, rule, slots, first_chunk, steps, rows: vec![] };
        let tokens = first_chunk + rng.below(2 * slots);
        while seq.tokens() < tokens {
            let most = seq.room().min(tokens - seq.tokens());
            if most == 0 {
                break;
            }
            let one = rng.below(2) == 0;
            seq.steps.push(if one { 1 } else { 1 + rng.below(most) });
        }
        let tokens = seq.tokens();
        seq.rows = (0..shape.layout.layers).map(|_| SeqRows::random(rng, shape, tokens)).collect();
        seq
    }

    pub fn tokens(&self) -> usize {
        self.steps.iter().sum()
    }

    pub fn slot_rule(&self, step: usize) -> terrace_kernels::SlotRule {
        let past = self.steps[..step].iter().sum();
        let rule = self.rule.slot_rule(self.slots, past, self.steps[step], self.first_chunk);
        rule.expect("a step that fits")
    }

    pub fn step_rows(&self, step: usize) -> Vec<StepRows> {
        let start = self.steps[..step].iter().sum();
        self.rows.iter().map(|rows| rows.part(start, self.steps[step])).collect()
    }

    /// The first chunk cut into steps.
    pub fn spread(&self, rng: &mut Rng) -> Self {
        let mut steps = Vec::new();
        let mut rest = self.first_chunk;
        while rest > 0 {
            steps.push(1 + rng.below(rest));
            rest -= steps.last().expect("just pushed");
        }
        steps.extend(&self.steps[1..]);
        SlotSeq { steps, ..self.clone() }
    }

    /// Most tokens of the next chunk.
    fn room(&self) -> usize {
        match self.rule.slot_rule(self.slots, self.tokens(), usize::MAX, self.first_chunk) {
            Err(PolicyError::ChunkTokens { most, .. }) => most,
            other => panic!("no room for all tokens there are: {other:?}"),
        }
    }
}

impl SeqRows {
    /// Multiples of 1/64: numbers that every type of pages has.
    fn random(rng: &mut Rng, shape: &RunShape, tokens: usize) -> Self {
        let (kv_heads, dim) = (shape.layout.kv_heads, shape.layout.key_dim);
        let mut rows = |heads: usize| -> Vec<f32> {
            (0..heads * tokens * dim).map(|_| rng.below(257) as f32 / 64.0 - 2.0).collect()
        };
        SeqRows {
            tokens,
            dim,
            query: rows(shape.heads),
            keys: rows(kv_heads),
            values: rows(kv_heads),
        }
    }

    fn part(&self, start: usize, tokens: usize) -> StepRows {
        let dim = self.dim;
        let part = |rows: &[f32]| -> Vec<f32> {
            let heads = rows.chunks_exact(self.tokens * dim);
            heads.flat_map(|head| &head[start * dim..(start + tokens) * dim]).copied().collect()
        };
        let [query, keys, values] = [&self.query, &self.keys, &self.values].map(|rows| part(rows));
        StepRows { tokens, query, keys, values }
    }
}

impl StepRows {
    pub fn chunk(&self) -> ChunkRows<'_> {
        let StepRows { tokens, query, keys, values } = self;
        ChunkRows { tokens: *tokens, query, keys, values }
    }

    /// Queries and keys rotated to their positions.
    pub fn rotated(mut self, rotation: &[f32], first: usize, dim: usize) -> Self {
        for rows in [&mut self.query, &mut self.keys] {
            for (i, row) in rows.chunks_exact_mut(dim).enumerate() {
                let position = (first + i % self.tokens) as f64;
                for (pair, freq) in rotation.iter().enumerate() {
                    let (sin, cos) = (f64::from(*freq) * position).sin_cos();
                    let (a, b) = (f64::from(row[pair]), f64::from(row[pair + rotation.len()]));
                    row[pair] = (a * cos - b * sin) as f32;
                    row[pair + rotation.len()] = (b * cos + a * sin) as f32;
                }
            }
        }
        self
    }
}

fn random_format(rng: &mut Rng) -> SlotFormat {
    match rng.below(2) {
        0 => SlotFormat::Plain,
        _ => SlotFormat::Quantised(*rng.pick(&Quantiser::ALL)),
    }
}

fn random_rule(rng: &mut Rng, slots: usize, errors: bool) -> Rule {
    match rng.below(7) {
        0 => Rule::Keep,
        1 | 2 => Rule::Recent(RecentRule {
            protected_tokens: rng.below(slots / 2),
            text_segment: None,
            key_positions: *rng.pick(&[KeyPositions::InSequence, KeyPositions::InCache]),
        }),
        _ => Rule::Scored(ScoredRule {
            protected_tokens: rng.below(slots / 3 + 1),
            grace_tokens: rng.below(slots / 3 + 1),
            initial_slots: rng.below(slots),
            chunk_tokens_max: None,
            weighting: *rng.pick(&[Weighting::Attention, Weighting::ByValueNorm, ALL_NOTES]),
            per_age: rng.below(2) == 0,
            score_share: errors.then(|| *rng.pick(&[None, Some(0.5), Some(0.8)])).flatten(),
        }),
    }
}
