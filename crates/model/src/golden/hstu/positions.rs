//! Rows of the position and time tables that generative-recommenders adds.

use terrace_device::DType;
use terrace_golden::SetFindings;
use terrace_kernels::{AddedRows, EmbedTokensArgs, Ops};

use super::case::Case;
use crate::error::Error;
use crate::golden::placed::Placed;
use crate::hstu::{TimeScale, position_row_backward, time_row};

pub(super) fn check(case: &Case, ops: &Ops, findings: &mut SetFindings) -> Result<(), Error> {
    let lengths = case.lengths("seq_offsets")?;
    let targets = case.integers("num_targets")?;
    let context = case.count("contextual_seq_len")?;
    let times = case.tensors.f32s("timestamps")?;
    let [tokens, dim] = case.tensors.dims::<2>("x")?;
    let [position_rows, _] = case.tensors.dims::<2>("pos_emb")?;
    let device = ops.device();
    let x = Placed::f32s(&device, case.tensors.f32s("x")?, [tokens, dim])?;
    let position_table = ops.place_vector(case.tensors.f32s("pos_emb")?)?;
    let time_table = ops.place_vector(case.tensors.f32s("ts_emb")?)?;
    let all: Vec<i32> = (0..tokens as i32).collect();
    let all = Placed::i32s(&device, &all, [tokens])?;
    for (scale, name) in [(TimeScale::Sqrt, "out_sqrt"), (TimeScale::Log, "out_log")] {
        let (mut positions, mut buckets) = (Vec::new(), Vec::new());
        let mut start = 0;
        for (length, targets) in lengths.iter().zip(&targets) {
            let last = times[start + length - 1];
            for token in 0..*length {
                let history = length - targets;
                let row = position_row_backward(token, context, history, position_rows);
                positions.push(row as i32);
                buckets.push(time_row(last - times[start + token], scale, dim - 1) as i32);
            }
            start += length;
        }
        let positions = Placed::i32s(&device, &positions, [tokens])?;
        let buckets = Placed::i32s(&device, &buckets, [tokens])?;
        let mut out = Placed::zeros(&device, DType::F32, [tokens, dim])?;
        let args = EmbedTokensArgs {
            rows: x.view(),
            ids: all.view(),
            scale: 1.0,
            added: [
                Some(AddedRows { table: &position_table, ids: positions.view() }),
                Some(AddedRows { table: &time_table, ids: buckets.view() }),
            ],
        };
        ops.embed_tokens(&args, out.view_mut());
        let got = out.numbers(&device)?;
        findings.compare(&got, case.tensors.f32s(name)?, || format!("{}: {name}", case.name));
    }
    Ok(())
}
