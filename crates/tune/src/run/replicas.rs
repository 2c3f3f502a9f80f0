//! Copies of a model on devices with memory of their own: one for each rank but the first.

use terrace_kernels::Ops;

use crate::error::Error;
use crate::model::TunedModel;

/// What each rank computes with. On a CPU all ranks share the first one's.
#[derive(Clone, Copy)]
pub(crate) struct RankModels<'a> {
    pub first: &'a TunedModel,
    /// Of the ranks behind it; none where they share it.
    pub others: &'a [TunedModel],
}

impl<'a> RankModels<'a> {
    pub fn of(&self, rank: usize) -> &'a TunedModel {
        match rank.checked_sub(1) {
            Some(other) => self.others.get(other).unwrap_or(self.first),
            None => self.first,
        }
    }
}

/// Gives the others the numbers that the first has. `ranks`: of the first and of the others.
pub(super) fn update_replicas(
    first: &mut TunedModel,
    others: &mut [TunedModel],
    ranks: &[Ops],
) -> Result<(), Error> {
    if others.is_empty() {
        return Ok(());
    }
    let mut arrays = vec![Vec::new(); first.parameters().len()];
    first.change(&ranks[0].tuning()?, &mut |id, numbers| {
        arrays[id.index()] = numbers.to_vec();
    })?;
    for (other, ops) in others.iter_mut().zip(&ranks[1..]) {
        other.change(&ops.tuning()?, &mut |id, numbers| {
            numbers.copy_from_slice(&arrays[id.index()]);
        })?;
    }
    Ok(())
}
