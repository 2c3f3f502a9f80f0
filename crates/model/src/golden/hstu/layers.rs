//! One layer of recsys-examples, with its weights in both layouts.

use terrace_device::DType;
use terrace_golden::SetFindings;
use terrace_kernels::{BiasedWeight, Ops};

use super::case::Case;
use super::stack_run::{Rows, StackRun};
use crate::error::Error;
use crate::golden::placed::Placed;
use crate::hstu::{
    CandidateIds, HstuLayerSpec, HstuLayerTensors, HstuStack, HstuStepCtx, MaskSpec, SequenceParts,
    UvqkLayout, reordered,
};

const PAGE_TOKENS: usize = 4;

pub(super) fn check(case: &Case, ops: &Ops, findings: &mut SetFindings) -> Result<(), Error> {
    for (layout, suffix) in [(UvqkLayout::Blocked, "blocked"), (UvqkLayout::PerHead, "perhead")] {
        let stack = HstuStack::place(ops, spec(case)?, vec![tensors(case, layout, suffix)?])?;
        let got = run(case, ops, &stack)?;
        let at = || format!("{} {suffix}: out", case.name);
        findings.compare(&got, case.tensors.f32s("out")?, at);
    }
    Ok(())
}

fn spec(case: &Case) -> Result<HstuLayerSpec, Error> {
    let (hidden, heads) = (case.count("hidden")?, case.count("heads")?);
    let divisor = case.count("scaling_seqlen").or_else(|_| case.count("max_seqlen"))?;
    let spec = HstuLayerSpec::nvidia(hidden, heads, case.count("head_dim")?, divisor as f32);
    let eps = case.number("eps")? as f32;
    Ok(HstuLayerSpec { eps, residual: case.flag("residual")?, ..spec })
}

fn tensors(case: &Case, layout: UvqkLayout, suffix: &str) -> Result<HstuLayerTensors, Error> {
    let order = layout.order(&spec(case)?);
    let bias = case.tensors.f32s(&format!("uvqk_bias_{suffix}"))?;
    Ok(HstuLayerTensors {
        input_norm: Some(case.norm("input_norm_weight", "input_norm_bias")?),
        uvqk: BiasedWeight {
            weight: reordered(&case.matrix(&format!("uvqk_weight_{suffix}"))?, &order)?,
            bias: Some(order.iter().map(|output| bias[*output]).collect()),
        },
        output_norm: Some(case.norm("output_norm_weight", "output_norm_bias")?),
        output: BiasedWeight { weight: case.matrix("proj_weight")?, bias: None },
        bias: None,
    })
}

fn run(case: &Case, ops: &Ops, stack: &HstuStack) -> Result<Vec<f32>, Error> {
    let lengths = case.lengths("seq_offsets")?;
    let candidates = case.integers("num_candidates")?;
    let context = case.integers("contextual_seqlen")?;
    let has_context = case.flag("contextual_mask")?;
    let rows =
        lengths.iter().zip(candidates).zip(context).map(|((length, candidates), context)| {
            let context = has_context.then_some(context);
            Rows::whole(SequenceParts { context, history: length - candidates, candidates })
        });
    let rows: Vec<Rows> = rows.collect();
    let group = case.count("target_group_size")?;
    let mask = MaskSpec { candidates: CandidateIds::Own { group }, ..MaskSpec::CAUSAL };
    let layout = stack.page_layout(PAGE_TOKENS, DType::F32);
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let mut run = StackRun::new(ops, layout, rows.len(), longest)?;
    let device = run.device.clone();
    let dims = case.tensors.dims::<2>("x")?;
    let mut stream = Placed::f32s(&device, case.tensors.f32s("x")?, dims)?;
    let bytes = |size| stack.workspace_bytes(ops, &layout, size);
    run.step(&mask, &rows, bytes, |workspace, kv| {
        let ctx = HstuStepCtx::new(ops, workspace);
        stack.forward(ctx, stream.view_mut(), kv, None, None);
    })?;
    stream.numbers(&device)
}
