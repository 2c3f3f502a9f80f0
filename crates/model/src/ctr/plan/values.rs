//! Which tensors have memory of their own, and how the others are seen in it.

use terrace_kernels::CtrActivation;

use crate::ctr::ctr_graph::{CtrGraph, CtrNode};
use crate::ctr::ctr_layer::CtrForm;

pub(super) struct Values {
    pub values: Vec<Value>,
    /// How each tensor is seen; `None` for those that nobody needs.
    pub seen: Vec<Option<Seen>>,
    pub is_needed: Vec<bool>,
    /// Whether each result is written where it belongs by the layer that makes it.
    pub ended: Vec<bool>,
    /// Tensors that cannot be seen as a node sees them, and the values they are copied to.
    pub copies: Vec<Copied>,
    readers: Vec<usize>,
    multiple: usize,
}

/// A tensor with memory: rows of so many numbers, so many for each sample.
pub(super) struct Value {
    pub rows: usize,
    pub width: usize,
    pub home: Home,
    /// It is seen as other rows than these, so its rows must lie without gaps.
    pub is_dense: bool,
    /// A product reads its rows.
    pub is_multiplied: bool,
    /// What makes it.
    pub made_by: MadeBy,
    pub activation: Option<CtrActivation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Own,
    /// Columns of another value.
    Inside {
        value: usize,
        column: usize,
    },
    /// Columns of the result.
    Output {
        column: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MadeBy {
    /// A request.
    Input,
    /// A node, alone or with other values.
    Node { node: usize, is_only: bool },
    /// Copies, or functions of numbers.
    Copies,
}

pub(super) struct Copied {
    pub node: usize,
    pub tensor: usize,
    pub value: usize,
}

/// A tensor as a value, or as some of its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seen {
    pub value: usize,
    pub cut: Option<Cut>,
    /// Every tensor that stands between the value and this one is read once.
    is_only_way: bool,
}

/// Columns of rows, so many of each sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cut {
    pub rows: usize,
    pub start: usize,
    pub width: usize,
}

impl Values {
    pub fn new(graph: &CtrGraph, multiple: usize) -> Self {
        let is_needed = needed_nodes(graph);
        let mut values = Values {
            values: Vec::new(),
            seen: vec![None; graph.tensors.len()],
            readers: readers(graph, &is_needed),
            is_needed,
            ended: Vec::new(),
            copies: Vec::new(),
            multiple,
        };
        for &tensor in graph.dense.iter().chain(&graph.pooled) {
            values.add(graph, tensor, 1, MadeBy::Input);
        }
        for (index, node) in graph.nodes.iter().enumerate() {
            if values.is_needed[index] {
                values.add_node(graph, index, node);
            }
        }
        let mut column = 0;
        for end in &graph.ends {
            let ended = values.end(graph, end.tensor, end.activation, column);
            values.ended.push(ended);
            column += graph.tensors[end.tensor].shape.width();
        }
        values
    }

    /// What is left to each of so many nodes.
    pub fn activations(&self, nodes: usize) -> Vec<Option<CtrActivation>> {
        let mut activations = vec![None; nodes];
        for value in &self.values {
            if let MadeBy::Node { node, is_only: true } = value.made_by {
                activations[node] = value.activation;
            }
        }
        activations
    }

    /// The tensor, which is needed.
    pub fn seen(&self, tensor: usize) -> Seen {
        self.seen[tensor].expect("what is read was made before")
    }

    /// A value for a tensor.
    fn add(&mut self, graph: &CtrGraph, tensor: usize, rows: usize, made_by: MadeBy) {
        let value = self.push(graph.tensors[tensor].shape.numbers(), rows, made_by);
        self.seen[tensor] = Some(Seen { value, cut: None, is_only_way: true });
    }

    fn push(&mut self, numbers: usize, rows: usize, made_by: MadeBy) -> usize {
        self.values.push(Value {
            rows,
            width: numbers / rows,
            home: Home::Own,
            is_dense: false,
            is_multiplied: false,
            made_by,
            activation: None,
        });
        self.values.len() - 1
    }

    fn add_node(&mut self, graph: &CtrGraph, index: usize, node: &CtrNode) {
        match graph.form(node) {
            CtrForm::Same => self.seen[node.tops[0]] = Some(self.through(node.bottoms[0])),
            CtrForm::Columns { rows, ranges } => {
                let numbers = graph.tensors[node.bottoms[0]].shape.numbers();
                let seen = self.seen_as_rows(index, node.bottoms[0], rows, numbers);
                for (top, range) in node.tops.iter().zip(ranges) {
                    let before = seen.cut.map_or(0, |cut| cut.start);
                    let cut = Cut { rows, start: before + range.start, width: range.len() };
                    let is_whole = range.len() == numbers / rows;
                    self.seen[*top] = Some(match is_whole {
                        true => {
                            Seen { is_only_way: seen.is_only_way && node.tops.len() == 1, ..seen }
                        }
                        false => self.cut(seen, cut),
                    });
                }
            }
            CtrForm::SideBySide { rows } => {
                self.add(graph, node.tops[0], rows, MadeBy::Copies);
                let (value, mut column) = (self.values.len() - 1, 0);
                for bottom in &node.bottoms {
                    self.put_inside(*bottom, value, column);
                    column += graph.tensors[*bottom].shape.numbers() / rows;
                }
            }
            CtrForm::Activation(kind) => match self.sole_value(node.bottoms[0]) {
                Some(value)
                    if self.activates(graph, value) && self.values[value].activation.is_none() =>
                {
                    self.values[value].activation = Some(kind);
                    self.seen[node.tops[0]] = Some(self.through(node.bottoms[0]));
                }
                _ => {
                    let rows = graph.tensors[node.tops[0]].shape.rows();
                    self.add(graph, node.tops[0], rows, MadeBy::Copies);
                }
            },
            CtrForm::Computes(compute) => {
                for bottom in node.bottoms.iter().filter(|_| compute.multiplies()) {
                    let rows = compute.bottom_rows(&graph.tensors[*bottom].shape);
                    let Seen { value, cut, .. } = self.seen(*bottom);
                    let value = &mut self.values[value];
                    value.is_multiplied |= cut.map_or(value.rows, |cut| cut.rows) == rows;
                }
                let is_only = node.tops.len() == 1;
                for top in &node.tops {
                    let rows = compute.top_rows(&graph.tensors[*top].shape);
                    self.add(graph, *top, rows, MadeBy::Node { node: index, is_only });
                }
            }
            CtrForm::Graph(_) => unreachable!("a graph's layers are nodes"),
        }
    }

    /// A tensor seen through a layer that changes nothing.
    fn through(&self, tensor: usize) -> Seen {
        let seen = self.seen(tensor);
        Seen { is_only_way: seen.is_only_way && self.readers[tensor] == 1, ..seen }
    }

    /// A tensor of which columns of such rows can be seen: copied where it is columns of others.
    fn seen_as_rows(&mut self, node: usize, tensor: usize, rows: usize, numbers: usize) -> Seen {
        let seen = self.through(tensor);
        if seen.cut.is_none_or(|cut| cut.rows == rows) {
            return seen;
        }
        let value = self.push(numbers, rows, MadeBy::Copies);
        self.copies.push(Copied { node, tensor, value });
        Seen { value, cut: None, is_only_way: true }
    }

    fn cut(&mut self, seen: Seen, cut: Cut) -> Seen {
        let value = &mut self.values[seen.value];
        value.is_dense |= value.rows != cut.rows;
        Seen { cut: Some(cut), is_only_way: false, ..seen }
    }

    /// The value that a tensor is, if nobody else sees it.
    fn sole_value(&self, tensor: usize) -> Option<usize> {
        let seen = self.through(tensor);
        (seen.is_only_way && seen.cut.is_none()).then_some(seen.value)
    }

    /// Whether what makes a value applies functions to its numbers.
    fn activates(&self, graph: &CtrGraph, value: usize) -> bool {
        let MadeBy::Node { node, is_only: true } = self.values[value].made_by else { return false };
        match graph.form(&graph.nodes[node]) {
            CtrForm::Computes(compute) => compute.activates(),
            _ => false,
        }
    }

    /// Puts a bottom of a concatenation where it stands there, if nobody else reads it.
    fn put_inside(&mut self, tensor: usize, value: usize, column: usize) {
        let Some(part) = self.sole_value(tensor) else { return };
        let rows = self.values[value].rows;
        let part = &mut self.values[part];
        let is_alone = !matches!(part.made_by, MadeBy::Node { is_only: false, .. });
        let fits = part.rows == rows && part.home == Home::Own && !part.is_dense;
        if is_alone && fits && column.is_multiple_of(self.multiple) {
            part.home = Home::Inside { value, column };
        }
    }

    /// Whether the layer that makes a result writes it where it belongs.
    fn end(
        &mut self,
        graph: &CtrGraph,
        tensor: usize,
        activation: Option<CtrActivation>,
        column: usize,
    ) -> bool {
        let Some(index) = self.sole_value(tensor) else { return false };
        let activates = self.activates(graph, index);
        let value = &mut self.values[index];
        let is_free = value.home == Home::Own && value.rows == 1 && !value.is_dense;
        let has_room = activation.is_none() || value.activation.is_none();
        if activates && is_free && has_room {
            value.home = Home::Output { column };
            value.activation = value.activation.or(activation);
        }
        value.home == Home::Output { column }
    }
}

/// Those from which a result can be reached.
fn needed_nodes(graph: &CtrGraph) -> Vec<bool> {
    let mut is_read = vec![false; graph.tensors.len()];
    graph.ends.iter().for_each(|end| is_read[end.tensor] = true);
    let mut is_needed = vec![false; graph.nodes.len()];
    for (index, node) in graph.nodes.iter().enumerate().rev() {
        if node.tops.iter().any(|top| is_read[*top]) {
            is_needed[index] = true;
            node.bottoms.iter().for_each(|bottom| is_read[*bottom] = true);
        }
    }
    is_needed
}

/// How often each tensor is read.
fn readers(graph: &CtrGraph, is_needed: &[bool]) -> Vec<usize> {
    let mut readers = vec![0; graph.tensors.len()];
    let nodes = graph.nodes.iter().zip(is_needed).filter(|(_, is_needed)| **is_needed);
    let bottoms = nodes.flat_map(|(node, _)| &node.bottoms);
    for tensor in bottoms.chain(graph.ends.iter().map(|end| &end.tensor)) {
        readers[*tensor] += 1;
    }
    readers
}
