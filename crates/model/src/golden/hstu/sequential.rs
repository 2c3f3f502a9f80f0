//! Meta's public sequential recommender: bias by position and time, and the items it ranks first.

use terrace_device::DType;
use terrace_golden::SetFindings;
use terrace_kernels::{BiasedWeight, GatedForm, Ops, TimeBuckets};

use super::case::Case;
use super::stack_run::{Rows, StackRun};
use crate::error::Error;
use crate::golden::placed::Placed;
use crate::hstu::{
    BiasTensors, HstuLayerSpec, HstuLayerTensors, HstuStack, HstuStepCtx, MaskSpec, SequenceParts,
    StepTimes, transposed,
};

const PAGE_TOKENS: usize = 4;
/// Lengths below count as this.
const LEAST_LENGTH: f32 = 1e-6;

pub(super) fn check(case: &Case, ops: &Ops, findings: &mut SetFindings) -> Result<(), Error> {
    let lengths = case.integers("lengths")?;
    let times = EventTimes::new(case, &lengths)?;
    check_bias(case, &lengths, &times, findings)?;
    let encoded = encode(case, ops, &lengths, &times)?;
    let (n, dim) = (case.count("N")?, case.count("dim")?);
    let golden = case.tensors.f32s("encoded")?;
    let mut row = 0;
    for (seq, length) in lengths.iter().enumerate() {
        let got = &encoded[row * dim..(row + length) * dim];
        let want = &golden[seq * n * dim..][..length * dim];
        findings.compare(got, want, || format!("{}: encoded {seq}", case.name));
        row += length;
        check_items(case, seq, &got[(length - 1) * dim..], findings)?;
    }
    Ok(())
}

/// When the event of each position happened, and of the one after each row's.
struct EventTimes {
    keys: Vec<i64>,
    next: Vec<i64>,
    n: usize,
}

impl EventTimes {
    fn new(case: &Case, lengths: &[usize]) -> Result<Self, Error> {
        let n = case.count("N")?;
        let keys = case.tensors.i64("timestamps", [lengths.len(), n])?.to_vec();
        let mut next = Vec::new();
        for (seq, length) in lengths.iter().enumerate() {
            let times = &keys[seq * n..(seq + 1) * n];
            next.extend((0..*length).map(|row| times[(row + 1).min(n - 1)]));
        }
        Ok(EventTimes { keys, next, n })
    }
}

fn check_bias(
    case: &Case,
    lengths: &[usize],
    times: &EventTimes,
    findings: &mut SetFindings,
) -> Result<(), Error> {
    let n = times.n;
    let bias = bias_tensors(case, 0)?;
    let buckets = TimeBuckets::new(bias.by_time.len());
    let golden = case.tensors.f32("rel_bias_layer0", [lengths.len(), n, n])?;
    let mut first = 0;
    for (seq, length) in lengths.iter().enumerate() {
        for i in 0..*length {
            let by_time = |j: usize| {
                let difference = times.next[first + i] - times.keys[seq * n + j];
                bias.by_time[buckets.bucket(difference)]
            };
            let got: Vec<f32> =
                (0..=i).map(|j| by_time(j) + bias.by_position[n - 1 + j - i]).collect();
            let want = &golden[(seq * n + i) * n..][..=i];
            findings.compare(&got, want, || format!("{}: bias {seq} {i}", case.name));
        }
        first += length;
    }
    Ok(())
}

/// The normalised last hidden states of all rows.
fn encode(
    case: &Case,
    ops: &Ops,
    lengths: &[usize],
    times: &EventTimes,
) -> Result<Vec<f32>, Error> {
    let stack = stack(case, ops)?;
    let (n, dim) = (case.count("N")?, case.count("dim")?);
    let ids = case.tensors.i64("ids", [lengths.len(), n])?;
    let items = case.tensors.f32s("_embedding_module._item_emb.weight")?;
    let positions = case.tensors.f32s("_input_features_preproc._pos_emb.weight")?;
    let mut x = Vec::new();
    for (seq, length) in lengths.iter().enumerate() {
        for position in 0..*length {
            let id = ids[seq * n + position] as usize;
            let row = items[id * dim..(id + 1) * dim].iter();
            let scaled = row.map(|x| x * (dim as f32).sqrt());
            x.extend(scaled.zip(&positions[position * dim..]).map(|(x, position)| x + position));
        }
    }
    let rows = lengths.iter().map(|length| {
        Rows::whole(SequenceParts { context: None, history: *length, candidates: 0 })
    });
    let rows: Vec<Rows> = rows.collect();
    let layout = stack.page_layout(PAGE_TOKENS, DType::F32);
    let mut run = StackRun::new(ops, layout, rows.len(), n)?;
    let device = run.device.clone();
    let tokens = x.len() / dim;
    let mut stream = Placed::f32s(&device, &x, [tokens, dim])?;
    let next = Placed::i64s(&device, &times.next, [tokens])?;
    let keys = Placed::i64s(&device, &times.keys, [lengths.len(), n])?;
    let bytes = |size| stack.workspace_bytes(ops, &layout, size);
    run.step(&MaskSpec::CAUSAL, &rows, bytes, |workspace, kv| {
        let times = StepTimes { rows: next.view(), keys: keys.view() };
        let ctx = HstuStepCtx::new(ops, workspace);
        stack.forward(ctx, stream.view_mut(), kv, Some(times), None);
    })?;
    let all: Vec<i32> = (0..tokens as i32).collect();
    let all = Placed::i32s(&device, &all, [tokens])?;
    let mut out = Placed::zeros(&device, DType::F32, [tokens, dim])?;
    ops.unit_rows(stream.view(), all.view(), LEAST_LENGTH, out.view_mut());
    out.numbers(&device)
}

fn stack(case: &Case, ops: &Ops) -> Result<HstuStack, Error> {
    let dims = [case.count("dqk")?, case.count("dv")?];
    let (dim, heads, n) = (case.count("dim")?, case.count("heads")?, case.count("N")?);
    let spec = HstuLayerSpec::sequential(dim, heads, dims, n as f32);
    let gated = if case.flag("concat_ua")? { GatedForm::WithNormed } else { GatedForm::Gated };
    let spec = HstuLayerSpec { eps: case.number("eps")? as f32, gated, ..spec };
    let layer = |layer: usize| -> Result<HstuLayerTensors, Error> {
        let name = |tensor: &str| format!("_hstu._attention_layers.{layer}.{tensor}");
        let bias = case.tensors.f32s(&name("_o.bias"))?.to_vec();
        Ok(HstuLayerTensors {
            input_norm: None,
            uvqk: BiasedWeight { weight: transposed(&case.matrix(&name("_uvqk"))?)?, bias: None },
            output_norm: None,
            output: BiasedWeight { weight: case.matrix(&name("_o.weight"))?, bias: Some(bias) },
            bias: Some(bias_tensors(case, layer)?),
        })
    };
    let layers = (0..case.count("blocks")?).map(layer).collect::<Result<_, _>>()?;
    HstuStack::place(ops, spec, layers)
}

fn bias_tensors(case: &Case, layer: usize) -> Result<BiasTensors, Error> {
    let vector = |tensor: &str| {
        let name = format!("_hstu._attention_layers.{layer}._rel_attn_bias.{tensor}");
        case.tensors.f32s(&name).map(<[f32]>::to_vec)
    };
    Ok(BiasTensors { by_position: vector("_pos_w")?, by_time: vector("_ts_w")? })
}

/// The scores of all items after a sequence, and the first five.
fn check_items(
    case: &Case,
    seq: usize,
    current: &[f32],
    findings: &mut SetFindings,
) -> Result<(), Error> {
    let (dim, num_items) = (case.count("dim")?, case.count("num_items")?);
    let golden = |tensor: &str, width: usize| {
        case.tensors.f32s(tensor).map(|numbers| &numbers[seq * width..(seq + 1) * width])
    };
    findings.compare(current, golden("current", dim)?, || format!("{}: current", case.name));
    let items = case.tensors.f32s("_embedding_module._item_emb.weight")?;
    let unit = |row: &[f32]| -> Vec<f32> {
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt().max(LEAST_LENGTH);
        row.iter().map(|x| x / length).collect()
    };
    // Row 0 is padding.
    let items = items.chunks_exact(dim).skip(1).take(num_items).map(unit);
    let scores: Vec<f32> =
        items.map(|item| item.iter().zip(current).map(|(a, b)| a * b).sum()).collect();
    let at = || format!("{}: scores of {seq}", case.name);
    findings.compare(&scores, golden("scores", num_items)?, at);
    let mut ranked: Vec<usize> = (0..num_items).collect();
    ranked.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    let top: Vec<i64> = ranked.iter().take(5).map(|item| *item as i64 + 1).collect();
    let want = &case.tensors.i64s("top5_ids")?[seq * 5..(seq + 1) * 5];
    findings.compare_exactly(&top, want, || format!("{}: top of {seq}", case.name));
    Ok(())
}
