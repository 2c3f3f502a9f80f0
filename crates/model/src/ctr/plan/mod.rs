//! Which ops compute a network in which order, and where each tensor lies.
//!
//! A decision without a device: graphs go in ([`values`]), ops over places come out ([`steps`]),
//! and places share memory where their tensors do not live at the same time ([`slots`]).
//!
//! Reshapes, slices and what is for training only cost nothing: the tensors they make are others',
//! seen in another way. A function of numbers is part of the product or sum that makes these. What
//! a concatenation alone reads is written where it stands there.

mod ctr_plan;
mod early;
mod place;
mod planned_step;
mod slots;
mod steps;
#[cfg(test)]
mod tests;
mod values;

pub(super) use ctr_plan::CtrPlan;
pub(super) use place::{Memory, Place};
pub(super) use planned_step::PlannedStep;
