//! Random sequences for HSTU attention, with the plain rows they are made of.

use half::{bf16, f16};
use terrace_device::DType;

use super::spans::{Groups, Mask};
use crate::conformance::numbers::{rounded, rounded_rows};
use crate::hstu::activate::reference::silu;
use crate::hstu::attention::{RowSpan, TimeBuckets, reference};
use crate::pages::page_layout::PageLayout;
use crate::random::SplitMix;

#[derive(Clone, Debug)]
pub(super) struct HstuSpec {
    pub layout: PageLayout,
    pub layer: usize,
    pub activates: bool,
    pub mask: Mask,
    pub groups: Groups,
    pub has_bias: bool,
    pub has_factors: bool,
    /// Columns behind the meant ones of a matrix, and bytes behind a page's: kernels that need
    /// whole 16 bytes do not take every one of them.
    pub gap: usize,
    pub page_gap: usize,
    /// History and candidates of each sequence.
    pub seqs: Vec<[usize; 2]>,
}

pub(super) struct HstuCase {
    pub spec: HstuSpec,
    pub seqs: Vec<SeqRows>,
    pub scale: f32,
    pub divisor: f32,
    /// f32 `[2 n - 1]` by position, `[buckets]` by time.
    pub bias: [Vec<f32>; 2],
    pub buckets: TimeBuckets,
}

/// All rows of a sequence, candidates last.
pub(super) struct SeqRows {
    /// `[rows, heads * dim]`: as the projection leaves queries, keys and values, in numbers of the
    /// activations' type.
    pub live: [Vec<f32>; 3],
    /// What they are attended with: after SiLU, keys and values as pages hold them.
    pub attended: [Vec<f32>; 3],
    pub spans: Vec<RowSpan>,
    pub factors: Vec<f32>,
    pub row_times: Vec<i64>,
    pub key_times: Vec<i64>,
}

const BUCKETS: usize = 40;

impl HstuCase {
    /// Activations are of type `act`.
    pub(super) fn new(spec: HstuSpec, act: DType, random: &mut SplitMix) -> Self {
        let longest = spec.seqs.iter().map(|[history, candidates]| history + candidates).max();
        let positions = 2 * longest.unwrap_or(1).max(1) - 1;
        let seqs = spec.seqs.iter().map(|extents| SeqRows::new(&spec, act, *extents, random));
        HstuCase {
            seqs: seqs.collect(),
            scale: 4.0 / (spec.layout.key_dim as f32).sqrt(),
            divisor: 1.0 + random.below(50) as f32,
            bias: [random.numbers(positions), random.numbers(BUCKETS)],
            buckets: TimeBuckets::new(BUCKETS),
            spec,
        }
    }

    /// What attention should give for a row of a sequence: `[heads * value_dim]`.
    pub(super) fn wanted(&self, seq: usize, row: usize) -> Vec<f32> {
        let PageLayout { kv_heads: heads, key_dim, value_dim, .. } = self.spec.layout;
        let (rows, [history, _]) = (&self.seqs[seq], self.spec.seqs[seq]);
        let [q, k, v] = &rows.attended;
        let RowSpan { history: seen, candidates } = rows.spans[row].clone();
        let positions = || seen.clone().chain(candidates.clone().map(|it| history + it));
        let bias = |key: usize| self.bias_of(rows, row, key);
        let mut want = Vec::new();
        for head in 0..heads {
            let at = (row * heads + head) * key_dim;
            let mut out = vec![f32::NAN; value_dim];
            reference::attend(
                &q[at..at + key_dim],
                self.scale,
                positions(),
                bias,
                |j, i| k[(j * heads + head) * key_dim + i],
                |j, i| v[(j * heads + head) * value_dim + i],
                &mut out,
            );
            out.iter_mut().for_each(|out| match self.spec.has_factors {
                true => *out *= rows.factors[row],
                false => *out /= self.divisor,
            });
            want.extend(out);
        }
        want
    }

    fn bias_of(&self, rows: &SeqRows, row: usize, key: usize) -> f32 {
        if !self.spec.has_bias {
            return 0.0;
        }
        let [by_position, by_time] = &self.bias;
        let difference = rows.row_times[row].saturating_sub(rows.key_times[key]);
        by_position[by_position.len() / 2 + key - row] + by_time[self.buckets.bucket(difference)]
    }

    pub(super) fn name(&self) -> String {
        let HstuSpec { layout, activates, mask, groups, has_bias, has_factors, seqs, .. } =
            &self.spec;
        let PageLayout { kv_heads, page_tokens, key_dim, value_dim, dtype, .. } = layout;
        let what = [(*activates, "silu, "), (*has_bias, "bias, "), (*has_factors, "factors, ")];
        let what: String = what.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
        format!(
            "{} pages of {page_tokens}, {kv_heads} heads of {key_dim} and {value_dim}, {what}\
             {mask:?}, {groups:?}, seqs {seqs:?}",
            dtype.name()
        )
    }
}

impl SeqRows {
    fn new(
        spec: &HstuSpec,
        act: DType,
        [history, candidates]: [usize; 2],
        random: &mut SplitMix,
    ) -> Self {
        let PageLayout { kv_heads, key_dim, value_dim, dtype, .. } = spec.layout;
        let count = history + candidates;
        let live = [key_dim, key_dim, value_dim]
            .map(|dim| rounded(random.numbers(count * kv_heads * dim), act));
        let activated = live.clone().map(|rows| match spec.activates {
            true => rows.into_iter().map(silu).collect(),
            false => rows,
        });
        let [q, k, v] = activated;
        let attended =
            [rounded(q, act), page_rows(k, key_dim, dtype), page_rows(v, value_dim, dtype)];
        let mut time = 0i64;
        let mut times = || {
            let most = 1 << random.below(30);
            time += random.below(most) as i64;
            time
        };
        let key_times: Vec<i64> = (0..count).map(|_| times()).collect();
        let row_times = (0..count).map(|i| key_times[(i + 1).min(count - 1)]).collect();
        SeqRows {
            live,
            attended,
            spans: spec.mask.spans(spec.groups, [history, candidates], random),
            factors: random.numbers(count),
            row_times,
            key_times,
        }
    }

    /// The least position of the history that a row from `first` on sees.
    pub(super) fn least_seen(&self, first: usize) -> usize {
        let seen = self.spans[first..].iter().map(|span| &span.history);
        seen.filter(|seen| !seen.is_empty()).map(|seen| seen.start).min().unwrap_or(usize::MAX)
    }
}

/// The nearest numbers that pages have, in rows of `dim`.
fn page_rows(rows: Vec<f32>, dim: usize, dtype: DType) -> Vec<f32> {
    match dtype {
        DType::F16 => rows.into_iter().map(|x| f16::from_f32(x).to_f32()).collect(),
        DType::Bf16 => rows.into_iter().map(|x| bf16::from_f32(x).to_f32()).collect(),
        _ => rounded_rows(rows, dim, dtype),
    }
}
