//! Attention alone, under every mask of the originals.

use terrace_device::{DType, Workspace};
use terrace_golden::SetFindings;
use terrace_kernels::{AttendedRows, HstuAttendArgs, Ops, PageLayout, RowScale};

use super::case::Case;
use super::stack_run::{Rows, StackRun};
use crate::error::Error;
use crate::golden::placed::Placed;
use crate::hstu::{CandidateIds, MaskSpec, SequenceParts};

/// Odd, so that blocks and pages do not end together.
const PAGE_TOKENS: usize = 3;

pub(super) fn check(case: &Case, ops: &Ops, findings: &mut SetFindings) -> Result<(), Error> {
    if case.tensors.has("delta_q") {
        return check_cached(case, ops, findings);
    }
    let (mask, parts) = rule(case)?;
    let n = case.count("max_seq_len")?;
    check_mask(case, &mask, &parts, n, findings)?;
    let tensors = |name: &str| case.tensors.f32s(name);
    let [q, k, v] = [tensors("q")?, tensors("k")?, tensors("v")?];
    let rows: Vec<Rows> = parts.iter().map(|parts| Rows::whole(*parts)).collect();
    let mut run = Attention::new(case, ops, parts.len(), n)?;
    let got = run.attend(case, &mask, &rows, [q, k, v])?;
    findings.compare(&got, tensors("out")?, || format!("{}: out", case.name));
    let exact: Vec<f32> = case.tensors.f64s("out_f64")?.iter().map(|x| *x as f32).collect();
    findings.compare(&got, &exact, || format!("{}: out_f64", case.name));
    Ok(())
}

/// Everything but the last rows first, then those.
fn check_cached(case: &Case, ops: &Ops, findings: &mut SetFindings) -> Result<(), Error> {
    let (mask, parts) = rule(case)?;
    let delta = case.count("delta_size")?;
    let [_, heads, dim] = case.tensors.dims::<3>("k")?;
    let width = heads * dim;
    let (k, v) = (case.tensors.f32s("k")?, case.tensors.f32s("v")?);
    let starts = case.integers("seq_offsets")?;
    // Keys and values do not depend on queries: the rows before the last ones are stored with any.
    let mut run = Attention::new(case, ops, parts.len(), case.count("max_seq_len")?)?;
    let split = |seq: usize| (starts[seq + 1] - starts[seq] - delta).min(parts[seq].history);
    let take = |numbers: &[f32], rows: &dyn Fn(usize) -> std::ops::Range<usize>| -> Vec<f32> {
        let all = (0..parts.len()).flat_map(rows);
        all.flat_map(|row| numbers[row * width..(row + 1) * width].to_vec()).collect()
    };
    let before = |seq: usize| starts[seq]..starts[seq] + split(seq);
    let after = |seq: usize| starts[seq] + split(seq)..starts[seq + 1];
    let (past_k, past_v) = (take(k, &before), take(v, &before));
    let rows: Vec<Rows> = (0..parts.len())
        .map(|seq| {
            let past = split(seq);
            Rows { parts: parts[seq], history_rows: past, candidate_rows: 0 }
        })
        .collect();
    run.attend(case, &mask, &rows, [&past_k, &past_k, &past_v])?;
    // Where candidates alone are more than the last rows, more than those are computed again.
    let (live_k, live_v) = (take(k, &after), take(v, &after));
    let delta_q = case.tensors.f32s("delta_q")?;
    let mut queries = Vec::new();
    for seq in 0..parts.len() {
        queries.extend(vec![0.0; (after(seq).len() - delta) * width]);
        queries.extend(&delta_q[seq * delta * width..(seq + 1) * delta * width]);
    }
    let rows: Vec<Rows> = (0..parts.len())
        .map(|seq| {
            let new = parts[seq].history - split(seq);
            let candidate_rows = parts[seq].candidates;
            Rows { parts: parts[seq], history_rows: new, candidate_rows }
        })
        .collect();
    let got = run.attend(case, &mask, &rows, [&queries, &live_k, &live_v])?;
    let mut last = Vec::new();
    let mut end = 0;
    for seq in 0..parts.len() {
        end += after(seq).len();
        last.extend(&got[(end - delta) * width..end * width]);
    }
    findings.compare(&last, case.tensors.f32s("out_delta")?, || format!("{}: cached", case.name));
    Ok(())
}

/// The mask of a case, and how its sequences are divided.
pub(super) fn rule(case: &Case) -> Result<(MaskSpec, Vec<SequenceParts>), Error> {
    let lengths = case.lengths("seq_offsets")?;
    let targets = match case.tensors.has("num_targets") {
        true => case.integers("num_targets")?,
        false => vec![0; lengths.len()],
    };
    let is_meta = case.name.contains("meta");
    let group = case.count_or_zero("target_group_size").max(1);
    let mask = MaskSpec {
        causal: !case.has("causal") || case.flag("causal")?,
        window: Some(case.count_or_zero("max_attn_len")).filter(|window| 0 < *window),
        full_tail: case.count_or_zero("min_full_attn_seq_len"),
        candidates: if is_meta { CandidateIds::Shared } else { CandidateIds::Own { group } },
    };
    let context: Vec<Option<usize>> = match case.counts("num_contextuals") {
        Ok(counts) => counts.into_iter().map(Some).collect(),
        Err(_) => {
            let name = if is_meta { "contextual_seq_len" } else { "num_contextuals" };
            let count = case.count_or_zero(name);
            vec![Some(count).filter(|count| 0 < *count); lengths.len()]
        }
    };
    let parts = lengths.iter().zip(&targets).zip(context).map(|((length, candidates), context)| {
        SequenceParts { context, history: length - candidates, candidates: *candidates }
    });
    Ok((mask, parts.collect()))
}

fn check_mask(
    case: &Case,
    mask: &MaskSpec,
    parts: &[SequenceParts],
    n: usize,
    findings: &mut SetFindings,
) -> Result<(), Error> {
    let golden = case.tensors.u8("mask", [parts.len(), n, n])?;
    for (seq, parts) in parts.iter().enumerate() {
        let length = parts.history + parts.candidates;
        for i in 0..length {
            let span = mask.span(*parts, i);
            let sees = |j: usize| match j.checked_sub(parts.history) {
                Some(candidate) => span.candidates.contains(&candidate),
                None => span.history.contains(&j),
            };
            let got: Vec<bool> = (0..length).map(sees).collect();
            let row = &golden[(seq * n + i) * n..][..length];
            let want: Vec<bool> = row.iter().map(|seen| *seen != 0).collect();
            let at = || format!("{}: mask of sequence {seq}, row {i}", case.name);
            findings.compare_exactly(&got, &want, at);
        }
    }
    Ok(())
}

/// One layer's pages, and nothing but attention.
struct Attention<'a> {
    run: StackRun<'a>,
    width: usize,
}

impl<'a> Attention<'a> {
    fn new(case: &Case, ops: &'a Ops, seqs: usize, n: usize) -> Result<Self, Error> {
        let [_, kv_heads, key_dim] = case.tensors.dims::<3>("k")?;
        let [_, _, value_dim] = case.tensors.dims::<3>("v")?;
        let layout = PageLayout {
            layers: 1,
            kv_heads,
            page_tokens: PAGE_TOKENS,
            key_dim,
            value_dim,
            dtype: DType::F32,
        };
        let run = StackRun::new(ops, layout, seqs, n)?;
        Ok(Attention { run, width: kv_heads * key_dim })
    }

    /// q, k, v: `[rows, heads * dim]`
    fn attend(
        &mut self,
        case: &Case,
        mask: &MaskSpec,
        rows: &[Rows],
        [q, k, v]: [&[f32]; 3],
    ) -> Result<Vec<f32>, Error> {
        let (ops, device, width) = (self.run.ops, self.run.device.clone(), self.width);
        let tokens = q.len() / width;
        let place = |numbers: &[f32]| Placed::f32s(&device, numbers, [tokens, width]);
        let (mut q, mut k, mut v) = (place(q)?, place(k)?, place(v)?);
        let mut out = Placed::zeros(&device, DType::F32, [tokens, width])?;
        let factors = match case.tensors.has("attn_scale") {
            true => Some(Placed::f32s(&device, case.tensors.f32s("attn_scale")?, [tokens])?),
            false => None,
        };
        let divisor = case.count("scaling_seqlen").or_else(|_| case.count("max_seq_len"))? as f32;
        let row_scale = match &factors {
            Some(factors) => RowScale::Multiply(factors.view()),
            None => RowScale::DivideBy(divisor),
        };
        let scale = case.number("alpha")? as f32;
        let layout = self.run.layout;
        let scratch = |size| ops.hstu_scratch_bytes(&layout, size);
        self.run.step(
            mask,
            rows,
            |size| Workspace::bytes_for(DType::U8, [scratch(size)]),
            |workspace, kv| {
                let args = HstuAttendArgs {
                    q: q.view_mut(),
                    k: k.view_mut(),
                    v: v.view_mut(),
                    activates: false,
                    layer: 0,
                    scale,
                    bias: None,
                    row_scale,
                    rows: AttendedRows::All,
                    scratch: workspace.take(DType::U8, [scratch(kv.size())]),
                    out: out.view_mut(),
                };
                ops.hstu_attend(args, kv);
            },
        )?;
        out.numbers(&device)
    }
}
