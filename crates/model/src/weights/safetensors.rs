//! Safetensors files: one file, or shards named by an index.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use ::safetensors::tensor::{Dtype, Metadata};
use serde::Deserialize;
use terrace_device::HostMap;
use terrace_kernels::WeightFormat;

use super::stored_bytes::StoredBytes;
use super::{Stored, Weights};
use crate::error::Error;
use crate::files::read_json;
use crate::tensor_info::TensorInfo;

/// The header's length stands in front of it.
const LENGTH_BYTES: usize = 8;

impl Weights {
    /// Opens a folder with `model.safetensors`, or with shards and `model.safetensors.index.json`.
    pub fn open_safetensors(folder: &Path) -> Result<Weights, Error> {
        let index_path = folder.join("model.safetensors.index.json");
        if !index_path.exists() {
            return Weights::open_safetensors_file(&folder.join("model.safetensors"));
        }
        let malformed = |problem| Error::Malformed { path: index_path.clone(), problem };
        let index: Index = read_json(&index_path)?;
        let mut weights = Weights::empty();
        for shard in index.weight_map.values().collect::<BTreeSet<_>>() {
            if Path::new(shard).file_name() != Some(OsStr::new(shard)) {
                let problem = format!("shard {shard:?} is not a file name in this folder");
                return Err(malformed(problem));
            }
            weights.add_file(&folder.join(shard))?;
        }
        for (name, shard) in &index.weight_map {
            if !weights.tensors.contains_key(name) && !weights.foreign.contains_key(name) {
                return Err(malformed(format!("tensor {name:?} is not in its shard {shard:?}")));
            }
        }
        Ok(weights)
    }

    /// Opens one safetensors file, whatever its name.
    pub fn open_safetensors_file(path: &Path) -> Result<Weights, Error> {
        let mut weights = Weights::empty();
        weights.add_file(path)?;
        Ok(weights)
    }

    /// Adds the tensors of one file.
    fn add_file(&mut self, path: &Path) -> Result<(), Error> {
        let map = Arc::new(HostMap::open(path)?);
        let malformed = |problem| Error::Malformed { path: path.into(), problem };
        let (metadata, data_start) = read_header(map.bytes()).map_err(malformed)?;
        for (name, tensor) in metadata.tensors() {
            if self.tensors.contains_key(&name) || self.foreign.contains_key(&name) {
                return Err(malformed(format!("tensor {name:?} is in two shards")));
            }
            let Some(format) = weight_format(tensor.dtype) else {
                if tensor.dtype == Dtype::I64 && tensor.shape.len() == 1 {
                    let (start, end) = tensor.data_offsets;
                    let range = data_start + start..data_start + end;
                    self.integers.insert(name.clone(), StoredBytes::mapped(&map, range));
                }
                self.foreign.insert(name, tensor.dtype.to_string());
                continue;
            };
            if tensor.shape.contains(&0) {
                self.foreign.insert(name, format!("nothing ({:?})", tensor.shape));
                continue;
            }
            let (start, end) = tensor.data_offsets;
            let info = TensorInfo { format, shape: tensor.shape.clone() };
            let range = data_start + start..data_start + end;
            let bytes = StoredBytes::mapped(&map, range);
            self.tensors.insert(name, Stored { info, bytes });
        }
        self.files.push(map);
        Ok(())
    }
}

#[derive(Deserialize)]
struct Index {
    /// Tensor to shard.
    weight_map: BTreeMap<String, String>,
}

/// The header, and the byte where the tensors begin.
///
/// `Metadata` checks that the tensors follow each other without a gap and have the bytes their
/// shapes ask for; what is left to check is that they end where the file ends.
fn read_header(bytes: &[u8]) -> Result<(Metadata, usize), String> {
    let (length, rest) = bytes
        .split_first_chunk::<LENGTH_BYTES>()
        .ok_or_else(|| format!("{} bytes hold no header", bytes.len()))?;
    let length = u64::from_le_bytes(*length);
    let header =
        usize::try_from(length).ok().and_then(|length| rest.get(..length)).ok_or_else(|| {
            format!("its header should have {length} bytes, but {} are left", rest.len())
        })?;
    let metadata: Metadata = serde_json::from_slice(header).map_err(|error| error.to_string())?;
    let (wanted, held) = (metadata.data_len(), rest.len() - header.len());
    if wanted != held {
        return Err(format!("its tensors have {wanted} bytes, but the file holds {held}"));
    }
    Ok((metadata, LENGTH_BYTES + header.len()))
}

fn weight_format(dtype: Dtype) -> Option<WeightFormat> {
    match dtype {
        Dtype::F32 => Some(WeightFormat::F32),
        Dtype::F16 => Some(WeightFormat::F16),
        Dtype::BF16 => Some(WeightFormat::Bf16),
        _ => None,
    }
}
