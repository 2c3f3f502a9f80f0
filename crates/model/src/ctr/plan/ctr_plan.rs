//! What a step of a model does, as data.

use terrace_kernels::CtrActivation;

use super::early::put_early_first;
use super::place::Place;
use super::planned_step::PlannedStep;
use super::slots::assign_slots;
use super::steps::PlanSteps;
use super::values::Values;
use crate::ctr::ctr_graph::CtrGraph;

pub(in crate::ctr) struct CtrPlan {
    /// Numbers of a sample that each slot has room for.
    pub slots: Vec<usize>,
    /// Where the caller puts each table's pooled vectors, before the first step that is not early.
    pub pooled: Vec<Place>,
    pub steps: Vec<PlannedStep>,
    /// So many of them, the first, need no pooled vectors.
    pub early: usize,
    /// What is left to each node that computes.
    pub activations: Vec<Option<CtrActivation>>,
    /// Nodes whose results are used.
    pub is_needed: Vec<bool>,
}

impl CtrPlan {
    /// Inputs of products begin at multiples of `multiple` columns and have so many.
    pub fn new(graph: &CtrGraph, multiple: usize) -> Self {
        let values = Values::new(graph, multiple);
        let PlanSteps { mut steps, mut pooled, sizes } = PlanSteps::new(graph, &values, multiple);
        let early = put_early_first(&pooled, &mut steps);
        let slots = assign_slots(&sizes, &mut pooled, &mut steps);
        let activations = values.activations(graph.nodes.len());
        CtrPlan { slots, pooled, steps, early, activations, is_needed: values.is_needed }
    }
}
