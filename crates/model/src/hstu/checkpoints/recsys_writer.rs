//! Writes a model as a checkpoint folder of recsys-examples.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::Value;

use super::checkpoint_tensor::CheckpointTensor;
use super::hstu_checkpoint::HstuCheckpoint;
use super::recsys_gin::{HeadShape, RecsysGin};
use super::recsys_names::{
    DENSE_FOLDER, DYNAMIC_TABLES, HEAD, LayerForm, POSITIONS, RecsysMlp, STATIC_TABLES, STREAM_MLPS,
};
use crate::error::Error;
use crate::hstu::hstu_config::{HstuConfig, HstuTask, HstuVariant, Similarity};
use crate::hstu::recsys_args::{DatasetArgs, DatasetChoice, EmbeddingArgs, RecsysArgs, TableKind};
use crate::torch_file::{TorchDtype, TorchItem};

/// Bytes that are written between two reports of progress.
const PROGRESS_BYTES: usize = 8 << 20;

struct Writer<'a> {
    checkpoint: &'a HstuCheckpoint,
    tables: Vec<EmbeddingArgs>,
    /// Under the original's names, in its order.
    state: Vec<(String, CheckpointTensor)>,
    /// Names of ours that have been written.
    written: Vec<String>,
}

impl HstuCheckpoint {
    /// `torch_module/`, `dynamicemb_module/` and `config.gin` into a folder that is there. Where
    /// `args` are given, tables are named and kept as they say, and the model must be theirs.
    /// `progress` gets the bytes written since its last call.
    pub fn write_recsys(
        &self,
        folder: &Path,
        args: Option<&RecsysArgs>,
        progress: &mut dyn FnMut(usize),
    ) -> Result<(), Error> {
        self.check_recsys()?;
        let config = &self.config;
        let history = config.max_history_tokens - config.token_layout().context;
        let history = history / config.token_layout().item_tokens();
        if let Some(args) = args {
            check_same(config, &args.hstu_config(config.uvqk_layout)?)?;
        }
        let tables = match args {
            Some(args) => args.features()?.tables,
            None => self.own_tables()?,
        };
        let mut writer =
            Writer { checkpoint: self, tables, state: Vec::new(), written: Vec::new() };
        writer.static_tables()?;
        writer.dense()?;
        let head = match config.task {
            HstuTask::Ranking => Some(writer.head()?),
            HstuTask::Retrieval => None,
        };
        let dynamic = writer.dynamic_tables()?;
        writer.check_all_written(&dynamic)?;
        let gin = RecsysGin {
            config,
            position_rows: self.tensor("positions.weight")?.shape[0],
            head,
            dataset: args.and_then(named_dataset),
            tables: &writer.tables,
            history,
        };
        write_file(&folder.join("config.gin"), &[gin.text().as_bytes()], &mut |_| {})?;
        for (table, keys, rows) in &dynamic {
            let path = |what: &str| {
                let name = format!("{table}_emb_{what}.rank_0.world_size_1");
                folder.join(DYNAMIC_TABLES).join(name)
            };
            write_tensor(&path("keys"), keys, progress)?;
            write_tensor(&path("values"), rows, progress)?;
        }
        writer.write_state(folder, progress)
    }

    /// Whether the original has a form for it.
    fn check_recsys(&self) -> Result<(), Error> {
        let (config, spec) = (&self.config, self.config.layer_spec());
        let layout = config.token_layout();
        let history = config.max_history_tokens - layout.context;
        let problem = if config.variant != HstuVariant::Nvidia {
            format!("a model of the variant {}", config.variant.name())
        } else if spec.value_dim != spec.key_dim {
            format!("value_dim {} beside head_dim {}", spec.value_dim, spec.key_dim)
        } else if config.embedding_scale() != (spec.hidden as f32).sqrt() {
            format!("embedding_scale {}", config.embedding_scale())
        } else if config.task == HstuTask::Retrieval && config.item_similarity() != Similarity::Dot
        {
            "item_similarity cosine".to_owned()
        } else if !history.is_multiple_of(layout.item_tokens()) {
            format!(
                "max_history_tokens {}: behind {} of context there is half an item",
                config.max_history_tokens, layout.context
            )
        } else if config.item_embedding_dim.is_some() != config.contextual_embedding_dim.is_some() {
            "one of item_embedding_dim and contextual_embedding_dim without the other".to_owned()
        } else {
            return Ok(());
        };
        Err(cannot(&problem))
    }

    /// Tables with keys are dynamic ones, under the features' names.
    fn own_tables(&self) -> Result<Vec<EmbeddingArgs>, Error> {
        let mut fixed = Vec::new();
        let mut dynamic = Vec::new();
        for (feature, _) in self.config.tables() {
            let rows = self.tensor(&format!("embeddings.{feature}.weight"))?.shape[0];
            match self.tensors.contains_key(&format!("embeddings.{feature}.keys")) {
                true => dynamic.push(EmbeddingArgs::dynamic(feature, rows)),
                false => fixed.push(EmbeddingArgs::fixed(feature, feature, rows)),
            }
        }
        fixed.extend(dynamic);
        if let Some(table) = fixed.iter().find(|table| table.table_name.contains('/')) {
            return Err(cannot(&format!("the name {:?}, which has a slash", table.table_name)));
        }
        Ok(fixed)
    }
}

impl Writer<'_> {
    /// Takes a tensor of ours; of two dimensions it is turned where theirs is `[inputs, outputs]`.
    fn add(&mut self, ours: &str, theirs: String, is_across: bool) -> Result<(), Error> {
        let tensor = self.checkpoint.tensor(ours)?;
        let tensor = if is_across { tensor.transposed()? } else { tensor.clone() };
        self.state.push((theirs, tensor));
        self.written.push(ours.to_owned());
        Ok(())
    }

    fn dense(&mut self) -> Result<(), Error> {
        let config = &self.checkpoint.config;
        self.add("positions.weight", POSITIONS.to_owned(), false)?;
        STREAM_MLPS.into_iter().try_for_each(|mlp| self.mlp(mlp))?;
        let form = LayerForm::of(config.uvqk_layout);
        for layer in 0..config.num_layers {
            for name in form.layer(layer) {
                let is_bias = name.ours.ends_with("uvqk.bias");
                match is_bias && !self.checkpoint.tensors.contains_key(&name.ours) {
                    // The original has one always.
                    true => {
                        let zeros = CheckpointTensor::zeros(vec![config.layer_spec().uvqk_width()]);
                        self.state.push((name.theirs, zeros?));
                    }
                    false => self.add(&name.ours, name.theirs, name.is_across)?,
                }
            }
        }
        Ok(())
    }

    fn mlp(&mut self, mlp: RecsysMlp) -> Result<(), Error> {
        for layer in 0..self.checkpoint.mlp_layers(mlp.ours) {
            for part in ["weight", "bias"] {
                let name = mlp.name(layer, part);
                if part == "weight" || self.checkpoint.tensors.contains_key(&name.ours) {
                    self.add(&name.ours, name.theirs, false)?;
                }
            }
        }
        Ok(())
    }

    fn head(&mut self) -> Result<HeadShape, Error> {
        self.mlp(HEAD)?;
        let layers = self.checkpoint.mlp_layers(HEAD.ours);
        let part =
            |layer: usize, part: &str| self.checkpoint.tensors.get(&HEAD.name(layer, part).ours);
        let arch: Vec<usize> =
            (0..layers).filter_map(|layer| Some(part(layer, "weight")?.shape[0])).collect();
        let biases = (0..layers).filter(|layer| part(*layer, "bias").is_some()).count();
        if biases != 0 && biases != layers {
            return Err(cannot("a head of which some layers have a bias"));
        }
        Ok(HeadShape { arch, has_bias: biases > 0 })
    }

    /// All in one, as training has them.
    fn static_tables(&mut self) -> Result<(), Error> {
        let tables = self.tables.iter().filter(|table| !is_dynamic(table)).cloned();
        let (mut names, mut all) = (Vec::new(), None::<CheckpointTensor>);
        for table in tables.collect::<Vec<_>>() {
            let Some((feature, rows)) = self.rows_of(&table) else { continue };
            let (found, wanted) = (rows.shape[0], table.item_vocab_size_or_capacity);
            if found != wanted {
                let name = &table.table_name;
                return Err(cannot(&format!(
                    "{found} rows of {feature:?}: the table {name:?} has {wanted}"
                )));
            }
            if self.checkpoint.tensors.contains_key(&format!("embeddings.{feature}.keys")) {
                let name = &table.table_name;
                return Err(cannot(&format!(
                    "keys of {feature:?}: the table {name:?} is not a dynamic one"
                )));
            }
            let flat = CheckpointTensor { shape: vec![rows.shape.iter().product()], ..rows };
            names.push(table.table_name.clone());
            self.written.push(format!("embeddings.{feature}.weight"));
            all = match all {
                Some(before) if before.dtype != flat.dtype => {
                    return Err(cannot("static tables of several number types"));
                }
                Some(before) => Some(before.below(flat)),
                None => Some(flat),
            };
        }
        if let Some(all) = all {
            self.state.push((format!("{STATIC_TABLES}{}_weights", names.join("/")), all));
        }
        Ok(())
    }

    /// Names, keys and rows.
    fn dynamic_tables(
        &mut self,
    ) -> Result<Vec<(String, CheckpointTensor, CheckpointTensor)>, Error> {
        let mut found = Vec::new();
        for table in self.tables.iter().filter(|table| is_dynamic(table)) {
            let Some((feature, rows)) = self.rows_of(table) else { continue };
            if rows.dtype != TorchDtype::F32 {
                let (name, dtype) = (&table.table_name, rows.dtype.name());
                return Err(cannot(&format!("rows of {dtype} in the dynamic table {name:?}")));
            }
            let keys = self.checkpoint.tensors.get(&format!("embeddings.{feature}.keys"));
            let keys = match keys {
                Some(keys) => keys.clone(),
                None => CheckpointTensor::counted(rows.shape[0])?,
            };
            self.written.push(format!("embeddings.{feature}.weight"));
            found.push((table.table_name.clone(), keys, rows));
        }
        Ok(found)
    }

    /// Of the feature that looks up in a table. Features of the model that share it would have the
    /// same rows twice, of which the first are written.
    fn rows_of(&self, table: &EmbeddingArgs) -> Option<(String, CheckpointTensor)> {
        let config = &self.checkpoint.config;
        let mut features = config.tables().map(|(feature, _)| feature);
        let feature =
            features.find(|feature| table.feature_names.iter().any(|it| it == feature))?;
        let rows = self.checkpoint.tensors.get(&format!("embeddings.{feature}.weight"))?;
        Some((feature.to_owned(), rows.clone()))
    }

    fn check_all_written(
        &self,
        dynamic: &[(String, CheckpointTensor, CheckpointTensor)],
    ) -> Result<(), Error> {
        let is_key_list = |name: &str| {
            let table = name.strip_prefix("embeddings.").and_then(|it| it.strip_suffix(".keys"));
            table.is_some() && !dynamic.is_empty()
        };
        let mut names = self.checkpoint.tensors.keys();
        match names.find(|name| !self.written.contains(name) && !is_key_list(name)) {
            Some(name) => Err(cannot(&format!("the tensor {name:?}"))),
            None => Ok(()),
        }
    }

    fn write_state(&self, folder: &Path, progress: &mut dyn FnMut(usize)) -> Result<(), Error> {
        let entries = self.state.iter().map(|(name, tensor)| (name.clone(), tensor.as_item()));
        let saved = TorchItem::Dict(vec![
            ("model_state_dict".to_owned(), TorchItem::OrderedDict(entries.collect())),
            ("optimizer_state_dict".to_owned(), TorchItem::None),
        ]);
        let path = folder.join(DENSE_FOLDER).join("model.0.pth");
        make_folder_of(&path)?;
        saved.write(&path, progress)
    }
}

fn cannot(what: &str) -> Error {
    Error::Unsupported(format!("recsys-examples has no form for {what}"))
}

fn is_dynamic(table: &EmbeddingArgs) -> bool {
    matches!(table.kind, TableKind::Dynamic(_))
}

fn named_dataset(args: &RecsysArgs) -> Option<&DatasetArgs> {
    match &args.dataset {
        DatasetChoice::Named(args) => Some(args),
        DatasetChoice::Benchmark(_) => None,
    }
}

/// The configurations of the model and of a gin file say the same, defaults or not.
fn check_same(ours: &HstuConfig, theirs: &HstuConfig) -> Result<(), Error> {
    let [ours, theirs] = [ours, theirs].map(|config| {
        let whole = HstuConfig {
            value_dim: Some(config.layer_spec().value_dim),
            norm_eps: Some(config.layer_spec().eps),
            embedding_scale: Some(config.embedding_scale()),
            item_similarity: Some(config.item_similarity()),
            // The original has no key for what may be asked for of retrieval.
            max_candidates: match config.task {
                HstuTask::Ranking => config.max_candidates,
                HstuTask::Retrieval => 1,
            },
            ..config.clone()
        };
        serde_json::to_value(whole).expect("plain values")
    });
    let none = Value::Null;
    let (Value::Object(ours), Value::Object(theirs)) = (&ours, &theirs) else { return Ok(()) };
    let keys = ours.keys().chain(theirs.keys().filter(|key| !ours.contains_key(*key)));
    let different: Vec<String> = keys
        .filter_map(|key| {
            let [found, wanted] = [ours, theirs].map(|config| config.get(key).unwrap_or(&none));
            (found != wanted).then(|| format!("{key} is {found}, the gin file's {wanted}"))
        })
        .collect();
    match different.is_empty() {
        true => Ok(()),
        false => Err(Error::Config(different.join("; "))),
    }
}

fn make_folder_of(path: &Path) -> Result<(), Error> {
    let folder = path.parent().expect("a file in a folder");
    std::fs::create_dir_all(folder).map_err(|source| Error::Write { path: folder.into(), source })
}

fn write_tensor(
    path: &Path,
    tensor: &CheckpointTensor,
    progress: &mut dyn FnMut(usize),
) -> Result<(), Error> {
    make_folder_of(path)?;
    let parts: Vec<&[u8]> = tensor.parts.iter().map(|part| part.bytes()).collect();
    write_file(path, &parts, progress)
}

fn write_file(path: &Path, parts: &[&[u8]], progress: &mut dyn FnMut(usize)) -> Result<(), Error> {
    let write = |progress: &mut dyn FnMut(usize)| -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        for chunk in parts.iter().flat_map(|part| part.chunks(PROGRESS_BYTES)) {
            file.write_all(chunk)?;
            progress(chunk.len());
        }
        file.into_inner().map_err(|error| error.into_error())?.sync_all()
    };
    write(progress).map_err(|source| Error::Write { path: path.into(), source })
}
