//! A network as HugeCTR describes it in JSON, read and checked: what it takes, its layers, what it
//! gives.
//!
//! `{"layers": [Data, embeddings in the order of their tables, dense layers, losses]}`. Layers are
//! wired by the names of their bottoms and tops. Everything is checked here: a network that was
//! read can be placed and computed with any weights that fit it.

use serde_json::{Map, Value};
use terrace_kernels::CtrActivation;

use super::ctr_graph::{CtrEnd, CtrGraph};
use super::ctr_inputs::{CtrInputs, CtrOutput, CtrTable};
use super::ctr_layer::CtrForm;
use super::ctr_layer_kinds::CtrLayerKinds;
use super::ctr_shape::CtrShape;
use super::data_layer::{DataLayer, Sparse};
use super::embedding_layer::{EMBEDDINGS, EmbeddingLayer};
use super::graph_builder::{GraphBuilder, Named, NamedLayer};
use super::layer_fields::LayerFields;
use super::layers::Softmax;
use crate::error::Error;

pub struct CtrNetwork {
    pub(super) graph: CtrGraph,
    inputs: CtrInputs,
    outputs: Vec<CtrOutput>,
}

/// Largest JSON that is read.
const MAX_BYTES: usize = 4 << 20;
/// Most bottoms or tops of a layer, and most inputs of each kind.
const MAX_NAMES: usize = 1 << 12;
/// Longest name of a layer or tensor.
const MAX_NAME: usize = 256;

/// A layer whose first bottom is a result, compared with a label in training.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// Probabilities of single labels.
    Sigmoid,
    /// Probabilities of classes.
    Softmax,
}

impl Loss {
    const KINDS: [(&str, Loss); 3] = [
        ("BinaryCrossEntropyLoss", Loss::Sigmoid),
        ("CrossEntropyLoss", Loss::Softmax),
        ("MultiCrossEntropyLoss", Loss::Sigmoid),
    ];

    fn of(kind: &str) -> Option<Loss> {
        Loss::KINDS.iter().find(|(name, _)| *name == kind).map(|(_, loss)| *loss)
    }
}

impl CtrNetwork {
    /// With HugeCTR's layers.
    pub fn parse(json: &[u8]) -> Result<Self, Error> {
        CtrNetwork::parse_with(json, &CtrLayerKinds::hugectr())
    }

    /// With these types of layers.
    pub fn parse_with(json: &[u8], kinds: &CtrLayerKinds) -> Result<Self, Error> {
        if MAX_BYTES < json.len() {
            let bytes = json.len();
            return Err(Error::CtrNetwork(format!("it has {bytes} bytes; at most {MAX_BYTES}")));
        }
        let value: Value =
            serde_json::from_slice(json).map_err(|error| Error::CtrNetwork(error.to_string()))?;
        let layers = value.get("layers").and_then(Value::as_array);
        let layers = layers.ok_or_else(|| Error::CtrNetwork("it has no list of layers".into()))?;
        Reader::new(kinds).read(layers)
    }

    pub fn inputs(&self) -> &CtrInputs {
        &self.inputs
    }

    /// In the order of the labels, side by side.
    pub fn outputs(&self) -> &[CtrOutput] {
        &self.outputs
    }

    /// Columns of the result.
    pub fn output_width(&self) -> usize {
        self.outputs.iter().map(|output| output.width).sum()
    }

    /// Whether a sample's result depends on those that are computed with it: requests must then be
    /// computed alone.
    pub fn mixes_samples(&self) -> bool {
        self.graph.nodes.iter().any(|node| match self.graph.form(node) {
            CtrForm::Computes(compute) => compute.mixes_samples(),
            _ => false,
        })
    }
}

/// What has been read of a network.
struct Reader<'a> {
    kinds: &'a CtrLayerKinds,
    builder: GraphBuilder,
    inputs: CtrInputs,
    labels: Vec<(&'a str, usize)>,
    sparse: Vec<Sparse<'a>>,
    /// The label of each, and what becomes of a tensor.
    ends: Vec<(usize, CtrEnd)>,
    /// The last top of a layer that is no loss.
    last_top: Option<usize>,
}

impl<'a> Reader<'a> {
    fn new(kinds: &'a CtrLayerKinds) -> Self {
        Reader {
            kinds,
            builder: GraphBuilder::default(),
            inputs: CtrInputs { dense_dim: 0, tables: Vec::new() },
            labels: Vec::new(),
            sparse: Vec::new(),
            ends: Vec::new(),
            last_top: None,
        }
    }

    fn read(mut self, layers: &'a [Value]) -> Result<CtrNetwork, Error> {
        for (index, layer) in layers.iter().enumerate() {
            let number = index + 1;
            let no_object = || Error::CtrNetwork(format!("layer {number} is no object"));
            let layer = layer.as_object().ok_or_else(no_object)?;
            let kind = layer.get("type").and_then(Value::as_str);
            let kind =
                kind.ok_or_else(|| Error::CtrNetwork(format!("layer {number} has no type")))?;
            let name = layer_name(layer, kind);
            self.read_layer(index, name, kind, layer).map_err(|problem| Error::CtrLayer {
                layer: shortened(name),
                kind: shortened(kind),
                problem,
            })?;
        }
        self.finish()
    }

    fn read_layer(
        &mut self,
        index: usize,
        name: &'a str,
        kind: &'a str,
        layer: &'a Map<String, Value>,
    ) -> Result<(), String> {
        match (index, kind) {
            (0, "Data") => return self.read_data(layer),
            (0, _) => return Err("the first layer must be of type Data".into()),
            (_, "Data") => return Err("only the first layer can be of type Data".into()),
            _ => {}
        }
        check_name(name)?;
        if EMBEDDINGS.contains(&kind) {
            return self.read_embedding(layer);
        }
        let fields = LayerFields::new(layer);
        let (bottoms, tops) = (fields.names("bottom")?, fields.names("top")?);
        check_count("bottoms", bottoms.len())?;
        check_count("tops", tops.len())?;
        tops.iter().try_for_each(|top| check_name(top))?;
        let named = NamedLayer { name, bottoms: &bottoms, tops: &tops };
        if let Some(loss) = Loss::of(kind) {
            return self.read_loss(named, loss);
        }
        let read = self.kinds.get(kind).ok_or_else(|| {
            let losses = Loss::KINDS.map(|(name, _)| name).join(", ");
            let known: Vec<&str> = self.kinds.names().collect();
            let (known, embeddings) = (known.join(", "), EMBEDDINGS.join(", "));
            format!("this type is not known; known are {known}, {losses}, {embeddings}")
        })?;
        let made = self.builder.add(named, read(&fields)?)?;
        self.last_top = made.last().copied().or(self.last_top);
        Ok(())
    }

    fn read_data(&mut self, layer: &'a Map<String, Value>) -> Result<(), String> {
        let data = DataLayer::read(layer)?;
        check_count("labels", data.labels.len())?;
        check_count("sparse inputs", data.sparse.len())?;
        for (index, label) in data.labels.iter().enumerate() {
            check_name(label.name)?;
            self.builder.name(label.name, Named::Label(index))?;
            self.labels.push((label.name, label.dim));
        }
        if let Some(dense) = data.dense.filter(|dense| dense.dim > 0) {
            check_name(dense.name)?;
            let shape = CtrShape::of_samples(&[dense.dim])?;
            self.builder.graph.dense = Some(self.builder.input(dense.name, shape)?);
            self.inputs.dense_dim = dense.dim;
        }
        for (index, sparse) in data.sparse.iter().enumerate() {
            check_name(sparse.name)?;
            self.builder.name(sparse.name, Named::Keys(index))?;
        }
        self.sparse = data.sparse;
        Ok(())
    }

    fn read_embedding(&mut self, layer: &'a Map<String, Value>) -> Result<(), String> {
        let EmbeddingLayer { bottom, top, dim, combiner } = EmbeddingLayer::read(layer)?;
        check_name(top)?;
        let Named::Keys(keys) = self.builder.find(bottom)? else {
            return Err(format!("its bottom {bottom:?} is none of the sparse tops of Data"));
        };
        let Sparse { slots, keys_per_slot_most, keys_per_sample_most, .. } = self.sparse[keys];
        let shape = CtrShape::of_samples(&[slots, dim])?;
        let tensor = self.builder.input(top, shape)?;
        self.builder.graph.pooled.push(tensor);
        let name = top.to_owned();
        self.inputs.tables.push(CtrTable {
            name,
            slots,
            dim,
            combiner,
            keys_per_slot_most,
            keys_per_sample_most,
        });
        Ok(())
    }

    fn read_loss(&mut self, named: NamedLayer<'_>, loss: Loss) -> Result<(), String> {
        let &[bottom, label] = named.bottoms else {
            let found = named.bottoms.len();
            return Err(format!("it has {found} bottoms, but takes a tensor and a label"));
        };
        let Named::Label(index) = self.builder.find(label)? else {
            return Err(format!("its second bottom {label:?} is no label of Data"));
        };
        if self.ends.iter().any(|(other, _)| *other == index) {
            return Err(format!("label {label:?} has another loss"));
        }
        let (tensor, (_, dim)) = (self.builder.tensor(bottom)?, self.labels[index]);
        let shape = &self.builder.graph.tensors[tensor].shape;
        if loss == Loss::Sigmoid && (shape.rows() != 1 || shape.width() != dim) {
            return Err(format!("its bottom {bottom:?} is {shape}, but label {label:?} has {dim}"));
        }
        let end = match loss {
            Loss::Sigmoid => CtrEnd { tensor, activation: Some(CtrActivation::Sigmoid) },
            Loss::Softmax => {
                let classes = NamedLayer { bottoms: &[bottom], ..named };
                let made = self.builder.add(classes, Box::new(Softmax))?;
                CtrEnd { tensor: made[0], activation: None }
            }
        };
        self.ends.push((index, end));
        Ok(())
    }

    fn finish(mut self) -> Result<CtrNetwork, Error> {
        self.ends.sort_by_key(|(label, _)| *label);
        let (mut names, mut ends): (Vec<_>, Vec<_>) =
            self.ends.into_iter().map(|(label, end)| (self.labels[label].0, end)).unzip();
        let mut graph = self.builder.graph;
        if ends.is_empty() {
            let no_layers = || Error::CtrNetwork("it has no layers after its embeddings".into());
            let tensor = self.last_top.ok_or_else(no_layers)?;
            ends.push(CtrEnd { tensor, activation: None });
            names.push(&graph.tensors[tensor].name);
        }
        let mut outputs = Vec::with_capacity(ends.len());
        for (name, end) in names.into_iter().zip(&ends) {
            let shape = &graph.tensors[end.tensor].shape;
            if shape.rows() != 1 {
                let problem = format!("its result {name:?} is {shape}, not one row for a sample");
                return Err(Error::CtrNetwork(problem));
            }
            outputs.push(CtrOutput { name: name.to_owned(), width: shape.width() });
        }
        graph.ends = ends;
        Ok(CtrNetwork { graph, inputs: self.inputs, outputs })
    }
}

/// Its name, or that of its first top where HugeCTR has written the file, or its type.
fn layer_name<'a>(layer: &'a Map<String, Value>, kind: &'a str) -> &'a str {
    let top = || LayerFields::new(layer).names("top").ok()?.first().copied();
    layer.get("name").and_then(Value::as_str).or_else(top).unwrap_or(kind)
}

fn check_name(name: &str) -> Result<(), String> {
    match name.len() {
        1..=MAX_NAME => Ok(()),
        bytes => Err(format!("a name has {bytes} bytes; names have 1 to {MAX_NAME}")),
    }
}

fn check_count(what: &str, count: usize) -> Result<(), String> {
    match count <= MAX_NAMES {
        true => Ok(()),
        false => Err(format!("it has {count} {what}; at most {MAX_NAMES} are possible")),
    }
}

/// For messages.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{}..", &name[..end]),
        None => name.to_owned(),
    }
}
