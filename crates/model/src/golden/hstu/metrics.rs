//! Metrics of rankings.

use terrace_golden::SetFindings;
use terrace_kernels::Ops;

use super::case::Case;
use crate::error::Error;
use crate::hstu::metrics::{auc, hit, hit_as_recsys_examples, ndcg, reciprocal_rank, sigmoid};

/// Of the golden data.
const K: usize = 10;

pub(super) fn check(case: &Case, _: &Ops, findings: &mut SetFindings) -> Result<(), Error> {
    let [samples, tasks] = case.tensors.dims::<2>("logits")?;
    let logits = case.tensors.f32s("logits")?;
    let labels = case.tensors.i64("labels", [samples])?;
    for task in 0..tasks {
        let scores: Vec<f32> = logits.chunks_exact(tasks).map(|row| sigmoid(row[task])).collect();
        let got = auc(&scores, |sample| labels[sample] >> task & 1 == 1).unwrap_or(f64::NAN);
        let want = case.tensors.f64("auc", [tasks])?[task];
        findings.compare(&[got as f32], &[want as f32], || format!("auc of task {task}"));
    }
    let ranks = case.integers("ranks")?;
    let of = |metric: fn(usize) -> f32| ranks.iter().map(|rank| metric(*rank)).collect::<Vec<_>>();
    let gains = of(|rank| ndcg(rank, K));
    findings.compare(&gains, case.tensors.f32s("ndcg10")?, || "ndcg".to_owned());
    findings.compare(&of(reciprocal_rank), case.tensors.f32s("mrr")?, || "mrr".to_owned());
    for (metric, name) in [
        (hit as fn(usize, usize) -> bool, "hr10_standard"),
        (hit_as_recsys_examples, "hr10_nvidia"),
    ] {
        let got: Vec<u8> = ranks.iter().map(|rank| u8::from(metric(*rank, K))).collect();
        findings.compare_exactly(&got, case.tensors.u8s(name)?, || name.to_owned());
    }
    Ok(())
}
