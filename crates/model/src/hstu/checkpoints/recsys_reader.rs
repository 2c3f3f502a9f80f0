//! A checkpoint folder of recsys-examples, as a gin file describes its model.
//!
//! `torch_module/model.R.pth` has layers and static tables; of ranks that share each layer (tensor
//! parallelism) each has its part, of others each has the same. `dynamicemb_module/` has the
//! hash tables.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use terrace_device::HostMap;

use super::checkpoint_tensor::CheckpointTensor;
use super::dynamic_tables::DynamicTables;
use super::hstu_checkpoint::HstuCheckpoint;
use super::recsys_names::{
    DENSE_FOLDER, HEAD, LayerForm, POSITIONS, POSITIONS_OF_OLD, RecsysMlp, RecsysName,
    STATIC_TABLES, STREAM_MLPS,
};
use super::state_dict::StateDict;
use crate::error::Error;
use crate::hstu::hstu_config::{HstuConfig, HstuTask};
use crate::hstu::recsys_args::{DatasetFeatures, EmbeddingArgs, RecsysArgs, TaskArgs};

/// Other folders of tables in a state dict, which models for inference have.
const OTHER_TABLES: [&str; 3] = [
    "_embedding_collection.embeddings.",
    "_embedding_collection._nondynamic_embedding_collection.embeddings.",
    "_static_embedding_collection.embeddings.",
];
/// Where dynamic tables would be in a state dict; their rows are in files of their own.
const MODEL_PARALLEL: &str = "_model_parallel_embedding_collection";
/// What Transformer Engine keeps beside its weights.
const EXTRA_STATE: &str = "_extra_state";

struct Reader<'a> {
    args: &'a RecsysArgs,
    config: HstuConfig,
    form: LayerForm,
    /// Of each rank that has a part of the layers.
    ranks: Vec<StateDict>,
    tensors: BTreeMap<String, CheckpointTensor>,
}

impl HstuCheckpoint {
    pub fn from_recsys(args: &RecsysArgs, folder: &Path) -> Result<Self, Error> {
        let count = args.parallel.tensor_model_parallel_size;
        let path = |rank: usize| folder.join(DENSE_FOLDER).join(format!("model.{rank}.pth"));
        let ranks: Vec<StateDict> =
            (0..count).map(|rank| StateDict::open(&path(rank))).collect::<Result<_, _>>()?;
        let Some(first) = ranks.first() else {
            let problem = "TensorModelParallelArgs.tensor_model_parallel_size is 0";
            return Err(Error::Config(problem.into()));
        };
        let form = LayerForm::detect(|name| first.has(name)).ok_or_else(|| {
            let [.., uvqk, _, _, _, _] = LayerForm::Fused.layer(0);
            let (fused, layer) = (uvqk.theirs, "_hstu_block._attention_layers.0");
            first.malformed(format!(
                "it has no layer of recsys-examples: neither {fused:?} nor \
                 {layer}._linear_uvqk.weight with what belongs to them"
            ))
        })?;
        if count > 1 && form == LayerForm::Fused {
            let problem = format!(
                "its layers are fused, which cannot be cut over {count} GPUs; is \
                 tensor_model_parallel_size another checkpoint's?"
            );
            return Err(first.malformed(problem));
        }
        let config = args.hstu_config(form.layout())?;
        let mut reader = Reader { args, config, form, ranks, tensors: BTreeMap::new() };
        reader.layers()?;
        reader.positions()?;
        STREAM_MLPS.into_iter().try_for_each(|mlp| reader.mlp(mlp))?;
        if reader.config.task == HstuTask::Ranking {
            reader.head()?;
        }
        let mut files: Vec<_> = reader.ranks.iter().map(|rank| rank.map().clone()).collect();
        let dynamic = DynamicTables::find(&folder.join("dynamicemb_module"))?;
        files.extend(reader.tables(&dynamic)?);
        for mut rank in reader.ranks {
            rank.ignore(|name| name.contains(MODEL_PARALLEL) || name.ends_with(EXTRA_STATE));
            rank.finish()?;
        }
        Ok(HstuCheckpoint { config: reader.config, tensors: reader.tensors, files })
    }
}

impl Reader<'_> {
    fn layers(&mut self) -> Result<(), Error> {
        let spec = self.config.layer_spec();
        let (hidden, width, uvqk) = (spec.hidden, spec.value_width(), spec.uvqk_width());
        for layer in 0..self.config.num_layers {
            for name in self.form.layer(layer) {
                let part = name.ours.rsplit_once('.').map_or("", |(front, _)| front);
                let wanted = match (part.rsplit('.').next(), name.ours.ends_with("weight")) {
                    (Some("input_norm"), _) => vec![hidden],
                    (Some("output_norm"), _) => vec![width],
                    (Some("uvqk"), true) => vec![uvqk, hidden],
                    (Some("uvqk"), false) => vec![uvqk],
                    _ => vec![hidden, width],
                };
                let tensor = self.take(&name, wanted)?;
                self.tensors.insert(name.ours, tensor);
            }
        }
        Ok(())
    }

    /// A tensor in our order, of all ranks together.
    fn take(
        &mut self,
        RecsysName { ours, theirs, is_across }: &RecsysName,
        wanted: Vec<usize>,
    ) -> Result<CheckpointTensor, Error> {
        if *is_across {
            let across: Vec<usize> = wanted.iter().rev().copied().collect();
            return self.ranks[0].take_shaped(theirs, &across)?.transposed();
        }
        let count = self.ranks.len();
        let mut part = wanted.clone();
        // GPUs share the outputs of the projection, and the inputs of what follows attention.
        let is_rows = ours.contains(".uvqk.");
        let is_columns = ours.ends_with(".output.weight");
        let cut = if is_rows { Some(0) } else { is_columns.then_some(1) };
        if let Some(dim) = cut {
            if !wanted[dim].is_multiple_of(count) {
                let problem =
                    format!("{} of {theirs:?} are not shared by {count} GPUs", wanted[dim]);
                return Err(self.ranks[0].malformed(problem));
            }
            part[dim] /= count;
        }
        let mut parts = Vec::new();
        for rank in &mut self.ranks {
            parts.push(rank.take_shaped(theirs, &part)?);
        }
        let first = parts.remove(0);
        if let Some(other) = parts.iter().find(|part| part.dtype != first.dtype) {
            let (one, other) = (first.dtype.name(), other.dtype.name());
            let problem = format!("tensor {theirs:?} is {one} here and {other} in another rank");
            return Err(self.ranks[0].malformed(problem));
        }
        match cut {
            Some(0) => Ok(parts.into_iter().fold(first, CheckpointTensor::below)),
            Some(_) if count > 1 => {
                let across = parts.iter().try_fold(first.transposed()?, |front, part| {
                    Ok::<_, Error>(front.below(part.transposed()?))
                })?;
                across.transposed()
            }
            _ => Ok(first),
        }
    }

    /// Names in the first rank; the others have the same tensors, which are dropped.
    fn take_shared(&mut self, theirs: &str) -> Result<CheckpointTensor, Error> {
        let (first, others) = self.ranks.split_first_mut().expect("there is a rank");
        others.iter_mut().for_each(|rank| rank.ignore(|name| name == theirs));
        first.take(theirs)
    }

    fn positions(&mut self) -> Result<(), Error> {
        let name = match self.ranks[0].has(POSITIONS_OF_OLD) {
            true => POSITIONS_OF_OLD,
            false => POSITIONS,
        };
        let tensor = self.take_shared(name)?;
        let (rows, hidden) = (self.args.network.num_position_buckets, self.config.hidden_size);
        if tensor.shape != [rows, hidden] {
            let problem = format!(
                "tensor {name:?} has shape {:?}; NetworkArgs.num_position_buckets is {rows}, and \
                 hidden_size {hidden}",
                tensor.shape
            );
            return Err(self.ranks[0].malformed(problem));
        }
        self.tensors.insert("positions.weight".to_owned(), tensor);
        Ok(())
    }

    /// All layers of an mlp that there are.
    fn mlp(&mut self, mlp: RecsysMlp) -> Result<(), Error> {
        for layer in 0.. {
            let (weight, bias) = (mlp.name(layer, "weight"), mlp.name(layer, "bias"));
            if !self.ranks[0].has(&weight.theirs) {
                break;
            }
            let tensor = self.take_shared(&weight.theirs)?;
            self.tensors.insert(weight.ours, tensor);
            if self.ranks[0].has(&bias.theirs) {
                let tensor = self.take_shared(&bias.theirs)?;
                self.tensors.insert(bias.ours, tensor);
            }
        }
        Ok(())
    }

    /// As `RankingArgs` say.
    fn head(&mut self) -> Result<(), Error> {
        self.mlp(HEAD)?;
        let TaskArgs::Ranking(args) = &self.args.task else { return Ok(()) };
        let weight = |layer: usize| self.tensors.get(&HEAD.name(layer, "weight").ours);
        let found: Vec<usize> =
            (0..).map_while(|layer| weight(layer)?.shape.first().copied()).collect();
        let bias = self.tensors.contains_key(&HEAD.name(0, "bias").ours);
        if found != args.prediction_head_arch || bias != args.prediction_head_bias {
            let (name, wanted) = (HEAD.theirs, &args.prediction_head_arch);
            let problem = format!(
                "the head {name} has layers of {found:?} outputs, with bias: {bias}; \
                 RankingArgs.prediction_head_arch is {wanted:?}, prediction_head_bias {}",
                args.prediction_head_bias
            );
            return Err(self.ranks[0].malformed(problem));
        }
        Ok(())
    }

    /// A table for each feature; returns the files of dynamic ones.
    fn tables(&mut self, dynamic: &DynamicTables) -> Result<Vec<Arc<HostMap>>, Error> {
        let features = self.args.features()?;
        let dims: Vec<(String, usize)> =
            self.config.tables().map(|(name, dim)| (name.to_owned(), dim)).collect();
        let dim_of = |table: &EmbeddingArgs| {
            let serves = |(feature, _): &&(String, usize)| table.feature_names.contains(feature);
            dims.iter().find(serves).map(|(_, dim)| *dim)
        };
        let fixed = self.static_tables(&features, &dim_of)?;
        let mut files = Vec::new();
        for (feature, dim) in &dims {
            let table = features.table_of(feature).ok_or_else(|| {
                Error::Config(format!("no EmbeddingArgs or DynamicEmbeddingArgs have {feature:?}"))
            })?;
            let name = &table.table_name;
            let (rows, keys) = match fixed.get(name) {
                Some(rows) => (rows.clone(), None),
                None => match dynamic.open(name, *dim)? {
                    Some(found) => {
                        files.extend(found.files);
                        (found.rows, Some(found.keys))
                    }
                    None => return Err(self.table_missing(feature, name, dynamic)),
                },
            };
            if rows.shape.len() != 2 || rows.shape[0] == 0 || rows.shape[1] != *dim {
                let found = &rows.shape;
                let problem = format!("table {name:?} has shape {found:?}, not rows of {dim}");
                return Err(self.ranks[0].malformed(problem));
            }
            self.tensors.insert(format!("embeddings.{feature}.weight"), rows);
            if let Some(keys) = keys {
                self.tensors.insert(format!("embeddings.{feature}.keys"), keys);
            }
        }
        Ok(files)
    }

    /// Tables in the state dict, by their names; those that no feature asks for are dropped.
    fn static_tables(
        &mut self,
        features: &DatasetFeatures,
        dim_of: &dyn Fn(&EmbeddingArgs) -> Option<usize>,
    ) -> Result<BTreeMap<String, CheckpointTensor>, Error> {
        let prefixes = || [STATIC_TABLES].into_iter().chain(OTHER_TABLES);
        let stored: Vec<(String, String)> = self.ranks[0]
            .names()
            .filter_map(|name| {
                let table = prefixes().find_map(|prefix| name.strip_prefix(prefix))?;
                Some((name.to_owned(), table.to_owned()))
            })
            .collect();
        let mut tables = BTreeMap::new();
        for (name, table) in stored {
            let tensor = self.take_shared(&name)?;
            if let Some(table) = table.strip_suffix(".weight") {
                tables.insert(table.to_owned(), tensor);
                continue;
            }
            let malformed = |problem: String| self.ranks[0].malformed(problem);
            let Some(joined) = table.strip_suffix("_weights") else {
                return Err(malformed(format!("{name:?} is not the name of a table")));
            };
            let elements: usize = tensor.shape.iter().product();
            let mut taken = 0;
            for table in joined.split('/') {
                let args = features.tables.iter().find(|args| args.table_name == table);
                let sized =
                    args.and_then(|args| Some((args.item_vocab_size_or_capacity, dim_of(args)?)));
                let (rows, dim) = sized.ok_or_else(|| {
                    malformed(format!("{name:?} has a table {table:?} that no feature looks up in"))
                })?;
                let numbers = rows.checked_mul(dim).filter(|numbers| *numbers <= elements - taken);
                let numbers = numbers.ok_or_else(|| {
                    malformed(format!(
                        "{name:?} has {elements} numbers, {taken} of them before table {table:?}, \
                         which has {rows} rows of {dim}"
                    ))
                })?;
                tables.insert(table.to_owned(), tensor.table(taken, [rows, dim])?);
                taken += numbers;
            }
            if taken != elements {
                let problem = format!("{name:?} has {elements} numbers, its tables have {taken}");
                return Err(malformed(problem));
            }
        }
        Ok(tables)
    }

    fn table_missing(&self, feature: &str, table: &str, dynamic: &DynamicTables) -> Error {
        let entry = format!("_embedding_collection.{MODEL_PARALLEL}.embeddings.{table}.weight");
        let state = &self.ranks[0];
        let sharded = match state.opaque(&entry) {
            Some(class) => format!("; in {} it is a {class} without rows", state.path().display()),
            None => String::new(),
        };
        Error::Config(format!(
            "there is no table {table:?} of the feature {feature:?}: {} has {}{sharded}",
            dynamic.folder().display(),
            dynamic.names()
        ))
    }
}
