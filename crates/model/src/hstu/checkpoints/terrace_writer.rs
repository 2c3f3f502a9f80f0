//! Writes a model as our own folder: `config.json` and `model.safetensors`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Map, json};

use super::checkpoint_tensor::CheckpointTensor;
use super::hstu_checkpoint::HstuCheckpoint;
use crate::error::Error;
use crate::torch_file::TorchDtype;

/// Tensors begin at multiples of this.
const ALIGNMENT: usize = 8;
/// Bytes that are written between two reports of progress.
const PROGRESS_BYTES: usize = 8 << 20;

impl HstuCheckpoint {
    /// Into a folder that is there; `progress` gets the bytes written since its last call.
    pub fn write_terrace(
        &self,
        folder: &Path,
        progress: &mut dyn FnMut(usize),
    ) -> Result<(), Error> {
        let config = folder.join("config.json");
        let failed = |source| Error::Write { path: config.clone(), source };
        std::fs::write(&config, self.config.to_json()).map_err(failed)?;
        let path = folder.join("model.safetensors");
        self.write_safetensors(&path, progress)
            .map_err(|source| Error::Write { path: path.clone(), source })
    }

    /// Wide numbers first, so that all are aligned.
    fn write_safetensors(
        &self,
        path: &Path,
        progress: &mut dyn FnMut(usize),
    ) -> std::io::Result<()> {
        let mut tensors: Vec<(&String, &CheckpointTensor)> = self.tensors.iter().collect();
        tensors.sort_by_key(|(name, tensor)| (std::cmp::Reverse(tensor.dtype.bytes()), *name));
        let (mut header, mut start) = (Map::new(), 0);
        for (name, tensor) in &tensors {
            let end = start + tensor.bytes();
            let dtype = match tensor.dtype {
                TorchDtype::F32 => "F32",
                TorchDtype::F16 => "F16",
                TorchDtype::Bf16 => "BF16",
                TorchDtype::I64 => "I64",
                other => panic!("{name} is {}, which no checkpoint is read as", other.name()),
            };
            let entry =
                json!({ "dtype": dtype, "shape": tensor.shape, "data_offsets": [start, end] });
            header.insert((*name).clone(), entry);
            start = end;
        }
        let mut header = serde_json::Value::Object(header).to_string();
        header.extend(std::iter::repeat_n(
            ' ',
            header.len().next_multiple_of(ALIGNMENT) - header.len(),
        ));
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        for part in tensors.iter().flat_map(|(_, tensor)| &tensor.parts) {
            for chunk in part.bytes().chunks(PROGRESS_BYTES) {
                file.write_all(chunk)?;
                progress(chunk.len());
            }
        }
        file.into_inner().map_err(|error| error.into_error())?.sync_all()
    }
}
