//! A run's arrays by name: what is trained, and what the optimiser remembers of it.

use terrace_kernels::TuneOps;

use super::run_state::Arrays;
use crate::error::Error;
use crate::model::TunedModel;
use crate::optimiser::Optimiser;

pub(super) fn collect_arrays(
    model: &mut TunedModel,
    ops: &TuneOps<'_>,
    optimiser: &mut dyn Optimiser,
) -> Result<Arrays, Error> {
    let mut arrays = Arrays::new();
    visit(model, ops, optimiser, &mut |name, numbers| {
        arrays.insert(name, numbers.to_vec());
    })?;
    Ok(arrays)
}

/// Says what does not fit.
pub(super) fn restore_arrays(
    mut saved: Arrays,
    model: &mut TunedModel,
    ops: &TuneOps<'_>,
    optimiser: &mut dyn Optimiser,
) -> Result<Result<(), String>, Error> {
    let mut problem = None;
    visit(model, ops, optimiser, &mut |name, numbers| match saved.remove(&name) {
        Some(found) if found.len() == numbers.len() => numbers.copy_from_slice(&found),
        Some(found) => {
            let (found, wanted) = (found.len(), numbers.len());
            problem = Some(format!("{name} has {found} numbers, and the model {wanted}"));
        }
        None => problem = Some(format!("{name} is missing")),
    })?;
    let left = saved.keys().next().map(|name| format!("{name} is nothing that is trained"));
    Ok(problem.or(left).map_or(Ok(()), Err))
}

fn visit(
    model: &mut TunedModel,
    ops: &TuneOps<'_>,
    optimiser: &mut dyn Optimiser,
    f: &mut dyn FnMut(String, &mut [f32]),
) -> Result<(), Error> {
    let infos = model.parameters().to_vec();
    model.change(ops, &mut |id, numbers| f(infos[id.index()].name.clone(), numbers))?;
    for (what, arrays) in optimiser.state() {
        for (info, numbers) in infos.iter().zip(arrays) {
            f(format!("{what} of {}", info.name), numbers);
        }
    }
    Ok(())
}
