//! An op of a plan, over places.

use terrace_kernels::CtrActivation;

use super::place::Place;

#[derive(Clone, Debug, PartialEq)]
pub(in crate::ctr) enum PlannedStep {
    /// The caller's dense features.
    Dense {
        to: Place,
    },
    /// Zeros behind the columns of a product's input.
    Clear {
        to: Place,
    },
    Arrange {
        from: Place,
        to: Place,
    },
    Activate {
        from: Place,
        kind: CtrActivation,
        to: Place,
    },
    Compute {
        node: usize,
        bottoms: Vec<Place>,
        tops: Vec<Place>,
    },
}

impl PlannedStep {
    /// What it reads.
    pub fn reads(&self) -> &[Place] {
        match self {
            PlannedStep::Dense { .. } | PlannedStep::Clear { .. } => &[],
            PlannedStep::Arrange { from, .. } | PlannedStep::Activate { from, .. } => {
                std::slice::from_ref(from)
            }
            PlannedStep::Compute { bottoms, .. } => bottoms,
        }
    }

    /// What it writes.
    pub fn writes(&self) -> &[Place] {
        match self {
            PlannedStep::Dense { to }
            | PlannedStep::Clear { to }
            | PlannedStep::Arrange { to, .. }
            | PlannedStep::Activate { to, .. } => std::slice::from_ref(to),
            PlannedStep::Compute { tops, .. } => tops,
        }
    }

    pub fn places_mut(&mut self) -> Vec<&mut Place> {
        match self {
            PlannedStep::Dense { to } | PlannedStep::Clear { to } => vec![to],
            PlannedStep::Arrange { from, to } | PlannedStep::Activate { from, to, .. } => {
                vec![from, to]
            }
            PlannedStep::Compute { bottoms, tops, .. } => bottoms.iter_mut().chain(tops).collect(),
        }
    }
}
