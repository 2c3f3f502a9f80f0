//! Stacks of Meta's STU layers, whole and with the first rows cached.

use terrace_device::DType;
use terrace_golden::SetFindings;
use terrace_kernels::{BiasedWeight, NormExtent, Ops};

use super::attention::rule;
use super::case::Case;
use super::stack_run::{Rows, StackRun};
use crate::error::Error;
use crate::golden::placed::Placed;
use crate::hstu::{
    HstuLayerSpec, HstuLayerTensors, HstuStack, HstuStepCtx, MaskSpec, SequenceParts, transposed,
};

const PAGE_TOKENS: usize = 4;

pub(super) fn check(case: &Case, ops: &Ops, findings: &mut SetFindings) -> Result<(), Error> {
    let stack = stack(case, ops)?;
    let (mask, parts) = rule(case)?;
    let x = case.tensors.f32s("x")?;
    let rows: Vec<Rows> = parts.iter().map(|parts| Rows::whole(*parts)).collect();
    let mut run = Run::new(&stack, ops, &mask, &parts)?;
    let got = run.step(&rows, x)?;
    findings.compare(&got, case.tensors.f32s("out")?, || format!("{}: out", case.name));
    if case.tensors.has("out_delta") {
        check_cached(case, ops, &stack, findings)?;
    }
    Ok(())
}

/// The cached part first, whose keys and values are given too, and then the rest.
fn check_cached(
    case: &Case,
    ops: &Ops,
    stack: &HstuStack,
    findings: &mut SetFindings,
) -> Result<(), Error> {
    let (mask, parts) = rule(case)?;
    let cached = case.integers("kv_caching_lengths")?;
    let starts = case.integers("seq_offsets")?;
    let x = case.tensors.f32s("x")?;
    let hidden = stack.spec().hidden;
    let take = |rows: &dyn Fn(usize) -> std::ops::Range<usize>| -> Vec<f32> {
        let all = (0..parts.len()).flat_map(rows);
        all.flat_map(|row| x[row * hidden..(row + 1) * hidden].to_vec()).collect()
    };
    let mut run = Run::new(stack, ops, &mask, &parts)?;
    let rows = parts.iter().zip(&cached).map(|(parts, cached)| Rows {
        parts: *parts,
        history_rows: *cached,

        candidate_rows: 0,
    });
    let before = take(&|seq| starts[seq]..starts[seq] + cached[seq]);
    run.step(&rows.collect::<Vec<_>>(), &before)?;
    for layer in 0..stack.layers() {
        for (side, name) in ["k_cache", "v_cache"].into_iter().enumerate() {
            let want = case.tensors.f32s(&format!("layer{layer}.{name}"))?;
            let got = run.cached(&cached, layer, side)?;
            findings.compare(&got, want, || format!("{}: layer {layer} {name}", case.name));
        }
    }
    let rows = parts.iter().zip(&cached).map(|(parts, cached)| {
        let new = parts.history - cached;
        let candidate_rows = parts.candidates;
        Rows { parts: *parts, history_rows: new, candidate_rows }
    });
    let after = take(&|seq| starts[seq] + cached[seq]..starts[seq + 1]);
    let got = run.step(&rows.collect::<Vec<_>>(), &after)?;
    let at = || format!("{}: out_delta", case.name);
    findings.compare(&got, case.tensors.f32s("out_delta")?, at);
    Ok(())
}

fn stack(case: &Case, ops: &Ops) -> Result<HstuStack, Error> {
    let dims = [case.count("attention_dim")?, case.count("hidden_dim")?];
    let (heads, divisor) = (case.count("heads")?, case.count("max_seq_len")?);
    let spec = HstuLayerSpec::stu(case.count("embedding_dim")?, heads, dims, divisor as f32);
    let spec = HstuLayerSpec {
        eps: case.number("eps")? as f32,
        score_scale: case.number("alpha")? as f32,
        norm_extent: match case.flag("group_norm")? {
            true => NormExtent::EachHead { heads },
            false => NormExtent::AllHeads,
        },
        ..spec
    };
    let layer = |layer: usize| -> Result<HstuLayerTensors, Error> {
        let name = |tensor: &str| format!("layer{layer}.{tensor}");
        let norm = |part: &str| {
            case.norm(&name(&format!("{part}_norm_weight")), &name(&format!("{part}_norm_bias")))
        };
        Ok(HstuLayerTensors {
            input_norm: Some(norm("input")?),
            uvqk: BiasedWeight {
                weight: transposed(&case.matrix(&name("uvqk_weight"))?)?,
                bias: Some(case.tensors.f32s(&name("uvqk_beta"))?.to_vec()),
            },
            output_norm: Some(norm("output")?),
            output: BiasedWeight {
                weight: transposed(&case.matrix(&name("output_weight"))?)?,
                bias: None,
            },
            bias: None,
        })
    };
    let layers = (0..case.count("layers")?).map(layer).collect::<Result<_, _>>()?;
    HstuStack::place(ops, spec, layers)
}

struct Run<'a> {
    stack: &'a HstuStack,
    run: StackRun<'a>,
    mask: &'a MaskSpec,
}

impl<'a> Run<'a> {
    fn new(
        stack: &'a HstuStack,
        ops: &'a Ops,
        mask: &'a MaskSpec,
        parts: &[SequenceParts],
    ) -> Result<Self, Error> {
        let layout = stack.page_layout(PAGE_TOKENS, DType::F32);
        let longest = parts.iter().map(|parts| parts.history).max().unwrap_or(0);
        let run = StackRun::new(ops, layout, parts.len(), longest)?;
        Ok(Run { stack, run, mask })
    }

    fn step(&mut self, rows: &[Rows], x: &[f32]) -> Result<Vec<f32>, Error> {
        let (ops, device, stack) = (self.run.ops, self.run.device.clone(), self.stack);
        let hidden = stack.spec().hidden;
        let mut stream = Placed::f32s(&device, x, [x.len() / hidden, hidden])?;
        let layout = self.run.layout;
        let bytes = |size| stack.workspace_bytes(ops, &layout, size);
        self.run.step(self.mask, rows, bytes, |workspace, kv| {
            let ctx = HstuStepCtx::new(ops, workspace);
            stack.forward(ctx, stream.view_mut(), kv, None, None);
        })?;
        stream.numbers(&device)
    }

    /// The keys or the values of the first tokens of each sequence, `[tokens, heads * dim]`.
    fn cached(&self, tokens: &[usize], layer: usize, side: usize) -> Result<Vec<f32>, Error> {
        let rows = tokens
            .iter()
            .enumerate()
            .flat_map(|(seq, tokens)| (0..*tokens).map(move |position| (seq, position)));
        self.run.stored_rows(rows, layer, side)
    }
}
