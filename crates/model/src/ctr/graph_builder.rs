//! Layers one after the other become a graph, each checked against those before.

use std::collections::{BTreeMap, BTreeSet};

use super::ctr_graph::{CtrGraph, CtrNode, CtrTensor};
use super::ctr_layer::{CtrForm, CtrLayer, CtrSource, CtrSubLayer, CtrWiring};
use super::ctr_shape::CtrShape;

/// Most layers of a network, with those that layers are made of.
const MAX_NODES: usize = 1 << 12;

#[derive(Default)]
pub(super) struct GraphBuilder {
    pub graph: CtrGraph,
    names: BTreeMap<String, Named>,
    param_names: BTreeSet<String>,
}

/// What a name of the network stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Tensor(usize),
    /// By its number.
    Label(usize),
    /// The keys of an embedding, by their number.
    Keys(usize),
    /// A tensor that is there in training only.
    OfTraining,
}

/// A layer as the network names it.
#[derive(Clone, Copy)]
pub(super) struct NamedLayer<'a> {
    pub name: &'a str,
    pub bottoms: &'a [&'a str],
    pub tops: &'a [&'a str],
}

impl GraphBuilder {
    /// Gives a name its meaning, unless it has one.
    pub fn name(&mut self, name: &str, named: Named) -> Result<(), String> {
        match self.names.insert(name.to_owned(), named) {
            None => Ok(()),
            Some(_) => Err(made_twice(name)),
        }
    }

    pub fn find(&self, name: &str) -> Result<Named, String> {
        self.names.get(name).copied().ok_or_else(|| {
            format!("its bottom {name:?} is the top of no layer before it; check its spelling")
        })
    }

    pub fn tensor(&self, name: &str) -> Result<usize, String> {
        match self.find(name)? {
            Named::Tensor(tensor) => Ok(tensor),
            Named::Label(_) => Err(format!("its bottom {name:?} is a label, which a loss takes")),
            Named::Keys(_) => Err(format!("its bottom {name:?} is keys, which an embedding takes")),
            Named::OfTraining => Err(format!("its bottom {name:?} is there in training only")),
        }
    }

    /// A tensor that a request brings.
    pub fn input(&mut self, name: &str, shape: CtrShape) -> Result<usize, String> {
        let tensor = self.make(name.to_owned(), shape);
        self.name(name, Named::Tensor(tensor))?;
        Ok(tensor)
    }

    /// Gives the tensors that are its tops.
    pub fn add(
        &mut self,
        named: NamedLayer<'_>,
        layer: Box<dyn CtrLayer>,
    ) -> Result<Vec<usize>, String> {
        let given = CtrWiring { bottoms: named.bottoms.len(), tops: named.tops.len() };
        let CtrWiring { bottoms, tops } = layer.wiring(given);
        if given.bottoms < bottoms || given.tops < tops {
            return Err(format!(
                "it has {} bottoms and {} tops, but takes {bottoms} and makes {tops}",
                given.bottoms, given.tops
            ));
        }
        if let Some(name) = named.tops.iter().find(|name| self.names.contains_key(**name)) {
            return Err(made_twice(name));
        }
        let (read, of_training) = named.bottoms.split_at(bottoms);
        let read = read.iter().map(|name| self.tensor(name)).collect::<Result<Vec<_>, _>>()?;
        of_training.iter().try_for_each(|name| self.find(name).map(|_| ()))?;
        let (made, of_training) = named.tops.split_at(tops);
        let made = self.add_node(named, layer, read, made)?;
        for (name, tensor) in named.tops.iter().zip(&made) {
            self.name(name, Named::Tensor(*tensor))?;
        }
        of_training.iter().try_for_each(|name| self.name(name, Named::OfTraining))?;
        Ok(made)
    }

    /// Adds a layer, or those that it is made of; gives its tops.
    fn add_node(
        &mut self,
        named: NamedLayer<'_>,
        layer: Box<dyn CtrLayer>,
        bottoms: Vec<usize>,
        tops: &[&str],
    ) -> Result<Vec<usize>, String> {
        let bottom_shapes = self.graph.shapes(&bottoms);
        let shapes = layer.shapes(&bottom_shapes)?;
        if shapes.len() != tops.len() {
            return Err(format!("it makes {} tops, but has {}", shapes.len(), tops.len()));
        }
        let params = match layer.form(&bottom_shapes) {
            CtrForm::Graph(layers) => return self.add_graph(named, layers, &bottoms, tops),
            CtrForm::Computes(compute) => compute.params(&bottom_shapes),
            _ => Vec::new(),
        };
        if MAX_NODES <= self.graph.nodes.len() {
            return Err(format!("it is one layer too many; a network can have {MAX_NODES}"));
        }
        let first_number = self.graph.numbers;
        for param in &params {
            let name = format!("{}.{}", named.name, param.name);
            if !self.param_names.insert(name.clone()) {
                return Err(format!("its parameter {name} is another layer's too; rename a layer"));
            }
            let count = param.shape[0].checked_mul(param.shape[1]);
            let all = count.and_then(|count| self.graph.numbers.checked_add(count));
            self.graph.numbers = all.ok_or_else(|| {
                format!("its parameter {name} of {:?} numbers is too large", param.shape)
            })?;
        }
        let made = tops.iter().zip(shapes).map(|(name, shape)| self.make((*name).into(), shape));
        let made: Vec<usize> = made.collect();
        self.graph.nodes.push(CtrNode {
            layer_name: named.name.to_owned(),
            layer,
            bottoms,
            tops: made.clone(),
            params,
            first_number,
        });
        Ok(made)
    }

    /// The last layer makes the top; the tops of the others have no names that a network can use.
    fn add_graph(
        &mut self,
        named: NamedLayer<'_>,
        layers: Vec<CtrSubLayer>,
        bottoms: &[usize],
        tops: &[&str],
    ) -> Result<Vec<usize>, String> {
        let [top_name] = tops else {
            return Err(format!("it is made of layers that make one top, but has {}", tops.len()));
        };
        let mut made: Vec<usize> = Vec::with_capacity(layers.len());
        for (index, CtrSubLayer { layer, bottoms: sources }) in layers.into_iter().enumerate() {
            let source = |source: CtrSource| match source {
                CtrSource::Bottom(bottom) => bottoms[bottom],
                CtrSource::Made(layer) => made[layer],
            };
            let sources = sources.into_iter().map(source).collect();
            let name = format!("{top_name}.{index}");
            let [top] = self
                .add_node(named, layer, sources, &[&name])?
                .try_into()
                .expect("as many tops as there are names");
            made.push(top);
        }
        Ok(vec![*made.last().expect("a graph has layers")])
    }

    fn make(&mut self, name: String, shape: CtrShape) -> usize {
        self.graph.tensors.push(CtrTensor { name, shape });
        self.graph.tensors.len() - 1
    }
}

fn made_twice(name: &str) -> String {
    format!("{name:?} is made twice; give one of the two another name")
}
