//! A tuned model as files: a PEFT adapter, or a whole model in Hugging Face's layout.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView, serialize_to_file};
use serde_json::Value;
use terrace_kernels::TuneOps;
use terrace_model::{Adapter, AdapterBranch, BranchVector, BranchedProduct, DecoderSpec, LoraKind};

use super::training::{LoraOptions, Training};
use super::tuned_model::TunedModel;
use crate::error::Error;

/// Weights of a head model, beside the adapter or the model.
const HEAD_FILE: &str = "head_model.safetensors";
const HEAD_PREFIX: &str = "head_model.";
const WEIGHTS_FILE: &str = "model.safetensors";
const CONFIG_FILE: &str = "config.json";
/// Files that say how a model reads and writes, as they are.
const TEXT_FILES: [&str; 6] = [
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
    "chat_template.jinja",
];

type Arrays = BTreeMap<String, Vec<f32>>;

impl TunedModel {
    /// Writes the branches into a folder that is not there yet. `base_model`: what they belong to,
    /// as PEFT names it.
    pub fn write_adapter(
        &mut self,
        ops: &TuneOps<'_>,
        spec: &DecoderSpec,
        base_model: &str,
        folder: &Path,
    ) -> Result<(), Error> {
        let Training::Lora(options) = self.training() else {
            let what = "a model without branches".to_owned();
            return Err(Error::Unsupported { what, why: "it has no adapter to be saved" });
        };
        let mut arrays = self.arrays(ops)?;
        let branches: Vec<_> = BranchedProduct::all(spec)
            .filter_map(|product| Some((product, take_branch(&mut arrays, product, options)?)))
            .collect();
        let name = folder.display().to_string();
        Adapter::new(name, Some(base_model.to_owned()), spec, branches)?.write(folder)?;
        self.write_head(&arrays, folder)
    }

    /// Writes all weights, and what else of the source's files a model needs, into a folder that is
    /// not there yet.
    pub fn write_whole(
        &mut self,
        ops: &TuneOps<'_>,
        source: &Path,
        folder: &Path,
    ) -> Result<(), Error> {
        let write = |path: &Path, error| Error::Write { path: path.into(), error };
        fs::create_dir_all(folder).map_err(|error| write(folder, error))?;
        let arrays = self.arrays(ops)?;
        self.write_arrays(&arrays, &folder.join(WEIGHTS_FILE), |name| {
            !name.starts_with(HEAD_PREFIX)
        })?;
        let config = source.join(CONFIG_FILE);
        let text = fs::read_to_string(&config).map_err(|error| write(&config, error))?;
        let path = folder.join(CONFIG_FILE);
        fs::write(&path, in_f32(&text)).map_err(|error| write(&path, error))?;
        for name in TEXT_FILES.into_iter().filter(|name| source.join(name).exists()) {
            let path = folder.join(name);
            fs::copy(source.join(name), &path).map_err(|error| write(&path, error))?;
        }
        self.write_head(&arrays, folder)
    }

    fn write_head(&self, arrays: &Arrays, folder: &Path) -> Result<(), Error> {
        match self.head_parameters.is_empty() {
            true => Ok(()),
            false => self.write_arrays(arrays, &folder.join(HEAD_FILE), |name| {
                name.starts_with(HEAD_PREFIX)
            }),
        }
    }

    /// Those that are meant, under their own names.
    fn write_arrays(
        &self,
        arrays: &Arrays,
        path: &Path,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        let infos = self.parameters().iter().filter(|info| is_meant(&info.name));
        let bytes: Vec<_> = infos
            .map(|info| {
                let numbers = arrays[&info.name].iter().flat_map(|x| x.to_le_bytes());
                (info, numbers.collect::<Vec<u8>>())
            })
            .collect();
        let views = bytes.iter().map(|(info, bytes)| {
            let view = TensorView::new(Dtype::F32, info.shape.clone(), bytes);
            (info.name.as_str(), view.expect("as long as its shape says"))
        });
        // Loaders of Hugging Face want to know whose names these are.
        let about = [("format".to_owned(), "pt".to_owned())].into_iter().collect();
        let write = |error: safetensors::SafeTensorError| {
            let error = std::io::Error::other(error.to_string());
            Error::Write { path: path.into(), error }
        };
        serialize_to_file(views, Some(about), path).map_err(write)
    }

    /// All trained arrays by name.
    fn arrays(&mut self, ops: &TuneOps<'_>) -> Result<Arrays, Error> {
        let infos = self.parameters().to_vec();
        let mut arrays = Arrays::new();
        self.change(ops, &mut |id, numbers| {
            arrays.insert(infos[id.index()].name.clone(), numbers.to_vec());
        })?;
        Ok(arrays)
    }
}

fn take_branch(
    arrays: &mut Arrays,
    product: BranchedProduct,
    options: LoraOptions,
) -> Option<AdapterBranch> {
    let mut take = |part: &str| arrays.remove(&format!("{product}.{part}.weight"));
    let (a, b) = (take("lora_A")?, take("lora_B")?);
    let missing = "each of these branches has one";
    let vector = match options.kind {
        LoraKind::Default => BranchVector::None,
        LoraKind::RmsNorm => BranchVector::Norm(take("lora_norm").expect(missing)),
        LoraKind::Dora => BranchVector::Lengths(take("lora_magnitude_vector").expect(missing)),
    };
    Some(AdapterBranch { rank: options.rank, alpha: f64::from(options.alpha), a, b, vector })
}

/// The configuration of a model whose weights are saved in 32 bits.
fn in_f32(config: &str) -> String {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(config) else {
        return config.to_owned();
    };
    for name in ["torch_dtype", "dtype"] {
        if let Some(kind) = fields.get_mut(name) {
            *kind = "float32".into();
        }
    }
    serde_json::to_string_pretty(&fields).expect("it was JSON")
}
