//! The files that DynamicEmb dumps its hash tables to.
//!
//! Each rank writes `TABLE_emb_keys.rank_R.world_size_W` (i64) and `TABLE_emb_values...` (rows),
//! little-endian and without a header. Scores and the optimizer's state lie beside them and are
//! not read. `TABLE_opt_args.json`, where it is there, may say that rows are of 16 bits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use terrace_device::HostMap;

use super::checkpoint_tensor::CheckpointTensor;
use crate::error::Error;
use crate::files::read_json;
use crate::torch_file::TorchDtype;
use crate::weights::StoredBytes;

/// The files of all tables below a folder.
pub struct DynamicTables {
    folder: PathBuf,
    /// By table: the ranks' files of keys.
    keys: BTreeMap<String, Vec<KeysFile>>,
}

struct KeysFile {
    path: PathBuf,
    rank: usize,
    world_size: usize,
}

/// A table out of all ranks' files.
pub struct DynamicTable {
    /// i64 `[rows]`
    pub keys: CheckpointTensor,
    /// `[rows, dim]`
    pub rows: CheckpointTensor,
    pub files: Vec<Arc<HostMap>>,
}

const KEYS_MARK: &str = "_emb_keys.rank_";
const VALUES_MARK: &str = "_emb_values.rank_";
/// Folders in folders; a dump has two.
const DEPTH_MOST: usize = 8;

impl DynamicTables {
    /// A folder that is not there has none.
    pub fn find(folder: &Path) -> Result<Self, Error> {
        let mut tables = DynamicTables { folder: folder.into(), keys: BTreeMap::new() };
        if folder.is_dir() {
            tables.add_folder(folder, DEPTH_MOST)?;
        }
        Ok(tables)
    }

    fn add_folder(&mut self, folder: &Path, depth_left: usize) -> Result<(), Error> {
        let failed = |source| Error::Read { path: folder.into(), source };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            paths.push(entry.map_err(failed)?.path());
        }
        paths.sort();
        for path in paths {
            if path.is_dir() {
                if let Some(left) = depth_left.checked_sub(1) {
                    self.add_folder(&path, left)?;
                }
                continue;
            }
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let Some((table, rank)) = name.as_deref().and_then(|name| name.split_once(KEYS_MARK))
            else {
                continue;
            };
            let Some((rank, world_size)) = ranks(rank) else {
                let problem = "its name should end in rank_R.world_size_W".to_owned();
                return Err(Error::Malformed { path, problem });
            };
            let files = self.keys.entry(table.to_owned()).or_default();
            files.push(KeysFile { path, rank, world_size });
        }
        Ok(())
    }

    /// The names of tables, for errors.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.keys.keys().map(String::as_str).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Maps a table's files, those of all ranks, if it has any.
    pub fn open(&self, table: &str, dim: usize) -> Result<Option<DynamicTable>, Error> {
        let Some(files) = self.keys.get(table) else { return Ok(None) };
        let ranks = ranks_in_order(files)?;
        let mut dtype = None;
        let mut maps = Vec::new();
        let [mut key_parts, mut row_parts] = [Vec::new(), Vec::new()];
        let mut count = 0;
        for KeysFile { path, .. } in ranks {
            let keys = Arc::new(HostMap::open(path)?);
            let malformed = |problem| Error::Malformed { path: path.clone(), problem };
            if !keys.len().is_multiple_of(TorchDtype::I64.bytes()) {
                return Err(malformed(format!("{} bytes are no list of keys", keys.len())));
            }
            let rows = keys.len() / TorchDtype::I64.bytes();
            let values_path = values_path(path);
            let values = Arc::new(HostMap::open(&values_path)?);
            let dtype = match dtype {
                Some(dtype) => dtype,
                None => *dtype.insert(row_dtype(path, table, dim)?),
            };
            let wanted = rows.checked_mul(dim * dtype.bytes());
            if wanted != Some(values.len()) {
                let problem = format!(
                    "{} bytes are not {rows} rows of {dim} {} of table {table:?}",
                    values.len(),
                    dtype.name()
                );
                return Err(Error::Malformed { path: values_path, problem });
            }
            for (map, parts) in [(keys, &mut key_parts), (values, &mut row_parts)] {
                if !map.is_empty() {
                    parts.push(StoredBytes::mapped(&map, 0..map.len()));
                    maps.push(map);
                }
            }
            count += rows;
        }
        let dtype = dtype.unwrap_or(TorchDtype::F32);
        Ok(Some(DynamicTable {
            keys: CheckpointTensor { dtype: TorchDtype::I64, shape: vec![count], parts: key_parts },
            rows: CheckpointTensor { dtype, shape: vec![count, dim], parts: row_parts },
            files: maps,
        }))
    }
}

/// `R.world_size_W`
fn ranks(text: &str) -> Option<(usize, usize)> {
    let (rank, world_size) = text.split_once(".world_size_")?;
    Some((rank.parse().ok()?, world_size.parse().ok()?))
}

/// The files from rank 0 on. All must be there, of one dump.
fn ranks_in_order(files: &[KeysFile]) -> Result<Vec<&KeysFile>, Error> {
    let world_size = files[0].world_size;
    let mut ordered: Vec<&KeysFile> = files.iter().collect();
    ordered.sort_by_key(|file| file.rank);
    let path = files[0].path.clone();
    if let Some(other) = files.iter().find(|file| file.world_size != world_size) {
        let problem = format!(
            "it is of {world_size} ranks, and {} beside it of {}: these are two dumps",
            other.path.display(),
            other.world_size
        );
        return Err(Error::Malformed { path, problem });
    }
    let expected =
        (0..world_size).find(|rank| ordered.get(*rank).is_none_or(|it| it.rank != *rank));
    match expected {
        Some(rank) => {
            let problem = format!("the file of rank {rank} of {world_size} is missing beside it");
            Err(Error::Malformed { path, problem })
        }
        None if ordered.len() != world_size => {
            let found = ordered.len();
            let problem = format!("{found} files of {world_size} ranks; a folder has one dump");
            Err(Error::Malformed { path, problem })
        }
        None => Ok(ordered),
    }
}

fn values_path(keys: &Path) -> PathBuf {
    let name = keys.file_name().unwrap_or_default().to_string_lossy();
    let (table, rank) = name.split_once(KEYS_MARK).unwrap_or((&name, ""));
    keys.with_file_name(format!("{table}{VALUES_MARK}{rank}"))
}

/// As far as it matters here.
#[derive(Default, Deserialize)]
struct TableArgs {
    embedding_dtype: Option<String>,
    embedding_dim: Option<usize>,
}

/// f32, unless the file beside the keys says otherwise.
fn row_dtype(keys: &Path, table: &str, dim: usize) -> Result<TorchDtype, Error> {
    let path = keys.with_file_name(format!("{table}_opt_args.json"));
    let args = match path.is_file() {
        true => read_json(&path)?,
        false => TableArgs::default(),
    };
    let malformed = |problem| Err(Error::Malformed { path: path.clone(), problem });
    if let Some(found) = args.embedding_dim.filter(|found| *found != dim) {
        return malformed(format!("rows are {found} wide, the configuration asks for {dim}"));
    }
    let Some(name) = args.embedding_dtype else { return Ok(TorchDtype::F32) };
    let dtype = TorchDtype::from_name(name.trim_start_matches("torch."));
    match dtype.filter(|dtype| dtype.weight_format().is_some()) {
        Some(dtype) => Ok(dtype),
        None => malformed(format!("rows are {name:?}, not float32, float16 or bfloat16")),
    }
}
