//! An opened GGUF file.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use terrace_device::HostMap;

use super::cursor::Cursor;
use super::metadata::{FromMetadata, Value, ValueType};
use super::tensor_type;
use crate::error::Error;
use crate::tensor_info::TensorInfo;

/// More dimensions than any file has; ggml itself stops at four.
const MAX_DIMENSIONS: usize = 4;
/// Where tensors begin when the file does not say it.
const DEFAULT_ALIGNMENT: u64 = 32;
/// An empty name, a type and one byte of value.
const LEAST_METADATA_BYTES: usize = 8 + 4 + 1;
/// An empty name, one dimension, a type and an offset.
const LEAST_TENSOR_BYTES: usize = 8 + (4 + 8) + 4 + 8;

pub struct GgufFile {
    map: Arc<HostMap>,
    metadata: BTreeMap<String, Value>,
    tensors: BTreeMap<String, GgufTensor>,
}

/// One tensor of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GgufTensor {
    pub info: TensorInfo,
    /// Its bytes in the file; inside the file, and as long as `info` asks.
    pub range: Range<usize>,
}

impl GgufFile {
    pub fn open(path: &Path) -> Result<GgufFile, Error> {
        let map = Arc::new(HostMap::open(path)?);
        let (metadata, tensors) = read_file(map.bytes())
            .map_err(|problem| Error::Malformed { path: path.into(), problem })?;
        Ok(GgufFile { map, metadata, tensors })
    }

    pub fn path(&self) -> &Path {
        self.map.path()
    }

    /// The value of `key`, `None` when the file has none, or an error when it is of another type.
    ///
    /// Reads `u64`, `f64`, `bool`, `&str`, `Vec<u64>`, `Vec<f64>` and `Vec<&str>`.
    pub fn get<'a, T: FromMetadata<'a>>(&'a self, key: &str) -> Result<Option<T>, Error> {
        let Some(value) = self.metadata.get(key) else { return Ok(None) };
        match T::from_metadata(value, self.map.bytes()) {
            Some(value) => Ok(Some(value)),
            None => Err(Error::MetadataKind {
                path: self.path().into(),
                key: key.into(),
                found: value.describe(),
                wanted: T::WANTED,
            }),
        }
    }

    /// As [`GgufFile::get`], for what a model cannot do without.
    pub fn require<'a, T: FromMetadata<'a>>(&'a self, key: &str) -> Result<T, Error> {
        self.get(key)?
            .ok_or_else(|| Error::MetadataMissing { path: self.path().into(), key: key.into() })
    }

    /// All metadata keys, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.metadata.keys().map(String::as_str)
    }

    /// All tensors, in order of their names.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &GgufTensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    pub fn map(&self) -> &Arc<HostMap> {
        &self.map
    }
}

type Content = (BTreeMap<String, Value>, BTreeMap<String, GgufTensor>);

fn read_file(bytes: &[u8]) -> Result<Content, String> {
    let mut cursor = Cursor::new(bytes);
    if cursor.take(4)? != b"GGUF" {
        return Err("it does not begin with GGUF".into());
    }
    match cursor.u32()? {
        2 | 3 => {}
        version if matches!(version.swap_bytes(), 1..=15) => return Err("it is big-endian".into()),
        version => return Err(format!("it is GGUF version {version}, but must be 2 or 3")),
    }
    // Both counts stand first, so a tensor count is held against the metadata's bytes too.
    let tensor_count = cursor.count(LEAST_TENSOR_BYTES, "tensors")?;
    let metadata_count = cursor.count(LEAST_METADATA_BYTES, "metadata values")?;
    let metadata = read_metadata(&mut cursor, metadata_count)?;

    let mut headers = Vec::new();
    for _ in 0..tensor_count {
        headers.push(TensorHeader::read(&mut cursor)?);
    }
    let alignment = alignment(&metadata)?;
    let data_start = (cursor.position() as u64)
        .checked_next_multiple_of(alignment)
        .ok_or_else(|| format!("alignment {alignment} is absurd"))?;
    let mut tensors = BTreeMap::new();
    for header in headers {
        let name = header.name.to_owned();
        let tensor = header
            .place(data_start, alignment, bytes.len())
            .map_err(|problem| format!("tensor {name:?} {problem}"))?;
        if tensors.insert(name.clone(), tensor).is_some() {
            return Err(format!("tensor {name:?} is there twice"));
        }
    }
    Ok((metadata, tensors))
}

fn read_metadata(cursor: &mut Cursor<'_>, count: usize) -> Result<BTreeMap<String, Value>, String> {
    let mut metadata = BTreeMap::new();
    for _ in 0..count {
        let key = cursor.str()?;
        let value = ValueType::from_id(cursor.u32()?).and_then(|kind| Value::read(kind, cursor));
        let value = value.map_err(|problem| format!("metadata {key:?}: {problem}"))?;
        if metadata.insert(key.to_owned(), value).is_some() {
            return Err(format!("metadata {key:?} is there twice"));
        }
    }
    Ok(metadata)
}

fn alignment(metadata: &BTreeMap<String, Value>) -> Result<u64, String> {
    match metadata.get("general.alignment") {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(&Value::Unsigned(alignment)) if alignment.is_power_of_two() => Ok(alignment),
        Some(other) => Err(format!("its alignment is {}, not a power of two", other.describe())),
    }
}

/// What the file says about a tensor, before it is checked.
struct TensorHeader<'a> {
    name: &'a str,
    /// Innermost dimension first, as GGUF has it.
    dimensions: Vec<u64>,
    type_id: u32,
    /// From the start of the tensor data.
    offset: u64,
}

impl<'a> TensorHeader<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self, String> {
        let name = cursor.str()?;
        let dimension_count = cursor.u32()? as usize;
        if !(1..=MAX_DIMENSIONS).contains(&dimension_count) {
            return Err(format!("tensor {name:?} has {dimension_count} dimensions, not 1 to 4"));
        }
        let dimensions =
            (0..dimension_count).map(|_| cursor.u64()).collect::<Result<Vec<_>, _>>()?;
        Ok(TensorHeader { name, dimensions, type_id: cursor.u32()?, offset: cursor.u64()? })
    }

    /// Checks everything; the message continues "tensor x ...".
    fn place(
        self,
        data_start: u64,
        alignment: u64,
        file_bytes: usize,
    ) -> Result<GgufTensor, String> {
        let format = tensor_type::weight_format(self.type_id).ok_or_else(|| {
            let name = tensor_type::name(self.type_id);
            format!(
                "has type {} ({name}), which is not supported; supported are {}",
                self.type_id,
                tensor_type::SUPPORTED
            )
        })?;
        if self.dimensions.contains(&0) {
            return Err(format!("is empty: {:?}", self.dimensions));
        }
        let too_large = || format!("has too many weights: {:?}", self.dimensions);
        let shape = self.dimensions.iter().rev().map(|&dimension| usize::try_from(dimension));
        let shape: Vec<usize> = shape.collect::<Result<_, _>>().map_err(|_| too_large())?;
        let (columns, outer) = shape.split_last().expect("at least one dimension was read");
        let row_bytes = format.row_bytes(*columns).ok_or_else(|| {
            format!("has rows of {columns} weights, which do not fill {} blocks", format.name())
        })?;
        let bytes = outer.iter().try_fold(row_bytes, |bytes, &count| bytes.checked_mul(count));
        let bytes = bytes.ok_or_else(too_large)?;

        if !self.offset.is_multiple_of(alignment) {
            return Err(format!("begins at {}, not a multiple of {alignment}", self.offset));
        }
        let outside = || {
            let offset = self.offset;
            format!("has {bytes} bytes at {offset}, outside the file of {file_bytes} bytes")
        };
        let start = data_start.checked_add(self.offset).and_then(|start| start.try_into().ok());
        let start: usize = start.ok_or_else(outside)?;
        let end = start.checked_add(bytes).filter(|&end| end <= file_bytes).ok_or_else(outside)?;
        Ok(GgufTensor { info: TensorInfo { format, shape }, range: start..end })
    }
}
