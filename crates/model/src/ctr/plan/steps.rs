//! The ops of a network over places, in order.

use std::collections::BTreeMap;

use super::place::{Memory, Place};
use super::planned_step::PlannedStep;
use super::values::{Home, Seen, Values};
use crate::ctr::ctr_graph::{CtrGraph, CtrNode};
use crate::ctr::ctr_layer::CtrForm;

/// Memories are numbered here by who has them: values first, then copies.
pub(super) struct PlanSteps {
    pub steps: Vec<PlannedStep>,
    pub pooled: Vec<Place>,
    /// Numbers of a sample that each memory has room for.
    pub sizes: Vec<usize>,
}

struct Planner<'a> {
    graph: &'a CtrGraph,
    values: &'a Values,
    multiple: usize,
    steps: Vec<PlannedStep>,
    sizes: Vec<usize>,
    /// Columns behind those that anybody writes, until they are cleared.
    uncleared: BTreeMap<usize, Place>,
    /// Tensors that were copied to be seen as other rows, and whether as a product's input.
    copies: BTreeMap<(Seen, usize, bool), Place>,
    output_width: usize,
}

impl PlanSteps {
    pub fn new(graph: &CtrGraph, values: &Values, multiple: usize) -> Self {
        let mut planner = Planner {
            graph,
            values,
            multiple,
            steps: Vec::new(),
            sizes: Vec::new(),
            uncleared: BTreeMap::new(),
            copies: BTreeMap::new(),
            output_width: graph.shapes(&ends(graph)).iter().map(|shape| shape.width()).sum(),
        };
        for (index, value) in values.values.iter().enumerate() {
            let stride = planner.stride(index);
            planner.take(value.rows, value.width, stride);
        }
        let pooled: Vec<Place> =
            graph.pooled.iter().map(|tensor| planner.tensor_place(*tensor)).collect();
        for place in &pooled {
            planner.clear_before(*place);
        }
        if let Some(dense) = graph.dense.filter(|dense| planner.is_read(*dense)) {
            let to = planner.tensor_place(dense);
            planner.push(PlannedStep::Dense { to });
        }
        for (index, node) in graph.nodes.iter().enumerate() {
            if values.is_needed[index] {
                planner.add_node(index, node);
            }
        }
        planner.end();
        PlanSteps { steps: planner.steps, pooled, sizes: planner.sizes }
    }
}

fn ends(graph: &CtrGraph) -> Vec<usize> {
    graph.ends.iter().map(|end| end.tensor).collect()
}

impl Planner<'_> {
    /// Memory for rows of so many numbers, `stride` apart.
    fn take(&mut self, rows: usize, width: usize, stride: usize) -> Place {
        let memory = self.sizes.len();
        self.sizes.push(rows * stride);
        let place = Place { memory: Memory::Slot(memory), rows, start: 0, width, stride };
        if width < stride {
            let behind = Place { start: width, width: stride - width, ..place };
            self.uncleared.insert(memory, behind);
        }
        place
    }

    fn stride(&self, value: usize) -> usize {
        let value = &self.values.values[value];
        match value.is_multiplied && !value.is_dense {
            true => value.width.next_multiple_of(self.multiple),
            false => value.width,
        }
    }

    fn is_read(&self, tensor: usize) -> bool {
        let nodes = self.graph.nodes.iter().zip(&self.values.is_needed);
        let is_bottom = nodes
            .filter(|(_, is_needed)| **is_needed)
            .any(|(node, _)| node.bottoms.contains(&tensor));
        is_bottom || ends(self.graph).contains(&tensor)
    }

    /// Where a value lies.
    fn place(&self, value: usize) -> Place {
        let found = &self.values.values[value];
        let (rows, width) = (found.rows, found.width);
        match found.home {
            Home::Own => {
                let stride = self.stride(value);
                Place { memory: Memory::Slot(value), rows, start: 0, width, stride }
            }
            Home::Inside { value, column } => {
                let around = self.place(value);
                Place { start: around.start + column, width, ..around }
            }
            Home::Output { column } => {
                let stride = self.output_width;
                Place { memory: Memory::Output, rows, start: column, width, stride }
            }
        }
    }

    /// Where a tensor lies, as whatever rows.
    fn tensor_place(&self, tensor: usize) -> Place {
        let Seen { value, cut, .. } = self.values.seen(tensor);
        let place = self.place(value);
        let Some(cut) = cut else { return place };
        // Its rows lie without gaps where they are others.
        let whole = place.as_rows(cut.rows).expect("cut rows are the value's, or it is dense");
        Place { start: whole.start + cut.start, width: cut.width, ..whole }
    }

    /// A tensor as such rows, copied where it does not lie so.
    fn read(&mut self, tensor: usize, rows: usize, is_product: bool) -> Place {
        let place = self.tensor_place(tensor);
        let fitting = place.as_rows(rows).and_then(|place| match is_product {
            true => place.padded(self.multiple),
            false => Some(place),
        });
        if let Some(place) = fitting {
            return place;
        }
        let key = (self.values.seen(tensor), rows, is_product);
        if let Some(copied) = self.copies.get(&key) {
            return *copied;
        }
        let width = place.rows * place.width / rows;
        let columns = if is_product { width.next_multiple_of(self.multiple) } else { width };
        let to = self.take(rows, width, columns);
        self.push(PlannedStep::Arrange { from: place, to });
        let copied = Place { width: columns, ..to };
        self.copies.insert(key, copied);
        copied
    }

    fn add_node(&mut self, index: usize, node: &CtrNode) {
        let values = self.values;
        for copied in values.copies.iter().filter(|copied| copied.node == index) {
            let (from, to) = (self.tensor_place(copied.tensor), self.place(copied.value));
            self.push(PlannedStep::Arrange { from, to });
        }
        match self.graph.form(node) {
            CtrForm::Same | CtrForm::Columns { .. } => {}
            CtrForm::SideBySide { rows } => self.join(node, rows),
            CtrForm::Activation(kind) => {
                let [from, to] = [node.bottoms[0], node.tops[0]];
                if values.seen(from).value != values.seen(to).value {
                    let to = self.tensor_place(to);
                    let from = self.read(from, to.rows, false);
                    self.push(PlannedStep::Activate { from, kind, to });
                }
            }
            CtrForm::Computes(compute) => {
                let mut bottoms = Vec::with_capacity(node.bottoms.len());
                for bottom in &node.bottoms {
                    let rows = compute.bottom_rows(&self.graph.tensors[*bottom].shape);
                    bottoms.push(self.read(*bottom, rows, compute.multiplies()));
                }
                let tops = node.tops.iter().map(|top| self.tensor_place(*top)).collect();
                self.push(PlannedStep::Compute { node: index, bottoms, tops });
            }
            CtrForm::Graph(_) => unreachable!("a graph's layers are nodes"),
        }
    }

    /// Copies what does not lie in a concatenation already.
    fn join(&mut self, node: &CtrNode, rows: usize) {
        let joined = self.values.seen(node.tops[0]).value;
        let (whole, mut column) = (self.place(joined), 0);
        for bottom in &node.bottoms {
            let width = self.graph.tensors[*bottom].shape.numbers() / rows;
            let part = self.values.seen(*bottom);
            let home = self.values.values[part.value].home;
            if part.cut.is_some() || home != (Home::Inside { value: joined, column }) {
                let to = Place { start: whole.start + column, width, ..whole };
                let from = self.tensor_place(*bottom);
                self.push(PlannedStep::Arrange { from, to });
            }
            column += width;
        }
    }

    /// Brings results where they belong that are not there.
    fn end(&mut self) {
        let (stride, mut start) = (self.output_width, 0);
        let graph = self.graph;
        for (end, is_there) in graph.ends.iter().zip(&self.values.ended) {
            let width = graph.tensors[end.tensor].shape.width();
            let to = Place { memory: Memory::Output, rows: 1, start, width, stride };
            start += width;
            match end.activation {
                _ if *is_there => {}
                Some(kind) => {
                    let from = self.read(end.tensor, 1, false);
                    self.push(PlannedStep::Activate { from, kind, to });
                }
                None => {
                    let from = self.tensor_place(end.tensor);
                    self.push(PlannedStep::Arrange { from, to });
                }
            }
        }
    }

    fn push(&mut self, step: PlannedStep) {
        for place in step.writes().to_vec() {
            self.clear_before(place);
        }
        self.steps.push(step);
    }

    /// Before the first write to memory, what lies behind its columns becomes zero.
    fn clear_before(&mut self, place: Place) {
        if let Memory::Slot(memory) = place.memory
            && let Some(to) = self.uncleared.remove(&memory)
        {
            self.steps.push(PlannedStep::Clear { to });
        }
    }
}
