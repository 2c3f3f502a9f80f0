//! Writes files as `torch.save` does: a pickle of protocol 2 and storages in a zip archive.
//!
//! `torch.load(..., weights_only=True)` reads them, and can map them: storages begin at multiples
//! of 64 bytes, as PyTorch's own do.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::opcode;
use super::torch_dtype::TorchDtype;
use crate::error::Error;

/// What is written.
pub enum TorchItem<'a> {
    None,
    Int(i64),
    Text(&'a str),
    List(Vec<TorchItem<'a>>),
    /// As Python's dict.
    Dict(Vec<(String, TorchItem<'a>)>),
    /// As `OrderedDict`, which state dicts are.
    OrderedDict(Vec<(String, TorchItem<'a>)>),
    Tensor(TorchItemTensor<'a>),
}

/// A tensor whose bytes are those of all parts, one behind the other.
pub struct TorchItemTensor<'a> {
    pub dtype: TorchDtype,
    pub shape: Vec<usize>,
    pub parts: Vec<&'a [u8]>,
}

const ALIGNMENT: u16 = 64;
/// Bytes that are written between two reports of progress.
const PROGRESS_BYTES: usize = 8 << 20;

impl TorchItem<'_> {
    /// Writes a file; `progress` gets the bytes of tensors written since its last call.
    pub fn write(&self, path: &Path, mut progress: impl FnMut(usize)) -> Result<(), Error> {
        let failed = |source| Error::Write { path: path.into(), source };
        let file = File::create(path).map_err(failed)?;
        let mut zip = ZipWriter::new(BufWriter::new(file));
        let mut pickle = vec![opcode::PROTO, 2];
        let mut tensors = Vec::new();
        self.pickle(&mut pickle, &mut tensors);
        pickle.push(opcode::STOP);
        let name = path.file_stem().map_or("archive".into(), |stem| stem.to_string_lossy());
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(true)
            .with_alignment(ALIGNMENT);
        let mut add = |entry: &str, parts: &[&[u8]], progress: &mut dyn FnMut(usize)| {
            zip.start_file(format!("{name}/{entry}"), options).map_err(std::io::Error::from)?;
            for chunk in parts.iter().flat_map(|part| part.chunks(PROGRESS_BYTES)) {
                zip.write_all(chunk)?;
                progress(chunk.len());
            }
            Ok(())
        };
        let mut silent = |_| {};
        add("data.pkl", &[&pickle], &mut silent).map_err(failed)?;
        add("byteorder", &[b"little"], &mut silent).map_err(failed)?;
        for (key, tensor) in tensors.iter().enumerate() {
            add(&format!("data/{key}"), &tensor.parts, &mut progress).map_err(failed)?;
        }
        add("version", &[b"3\n"], &mut silent).map_err(failed)?;
        let file = zip.finish().map_err(|error| failed(error.into()))?;
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)
    }

    /// Writes a file as Python's `pickle.dump` does: without an archive, and so without tensors.
    pub fn write_plain(&self, path: &Path) -> Result<(), Error> {
        let mut pickle = vec![opcode::PROTO, 2];
        let mut tensors = Vec::new();
        self.pickle(&mut pickle, &mut tensors);
        assert!(tensors.is_empty(), "a plain pickle has no storages");
        pickle.push(opcode::STOP);
        fs::write(path, pickle).map_err(|source| Error::Write { path: path.into(), source })
    }

    fn pickle<'a>(&'a self, to: &mut Vec<u8>, tensors: &mut Vec<&'a TorchItemTensor<'a>>) {
        match self {
            TorchItem::None => to.push(opcode::NONE),
            TorchItem::Int(number) => pickle_int(*number, to),
            TorchItem::Text(text) => pickle_text(text, to),
            TorchItem::List(items) => {
                to.extend([opcode::EMPTY_LIST, opcode::MARK]);
                items.iter().for_each(|item| item.pickle(to, tensors));
                to.push(opcode::APPENDS);
            }
            TorchItem::Dict(entries) => {
                to.push(opcode::EMPTY_DICT);
                pickle_entries(entries, to, tensors);
            }
            TorchItem::OrderedDict(entries) => {
                pickle_ordered_dict(to);
                pickle_entries(entries, to, tensors);
            }
            TorchItem::Tensor(tensor) => {
                tensor.pickle(tensors.len(), to);
                tensors.push(tensor);
            }
        }
    }
}

impl TorchItemTensor<'_> {
    /// A call of `_rebuild_tensor_v2` with the storage's reference and the tensor's layout.
    fn pickle(&self, key: usize, to: &mut Vec<u8>) {
        let elements: usize = self.shape.iter().product();
        let bytes: usize = self.parts.iter().map(|part| part.len()).sum();
        assert_eq!(bytes, elements * self.dtype.bytes(), "bytes of shape {:?}", self.shape);
        let class = self.dtype.storage().expect("types that have a storage class are written");
        pickle_global("torch._utils", "_rebuild_tensor_v2", to);
        to.extend([opcode::MARK, opcode::MARK]);
        pickle_text("storage", to);
        pickle_global("torch", class, to);
        pickle_text(&key.to_string(), to);
        pickle_text("cpu", to);
        pickle_int(elements as i64, to);
        to.extend([opcode::TUPLE, opcode::BINPERSID]);
        pickle_int(0, to);
        let mut stride = 1;
        let mut strides: Vec<usize> = Vec::new();
        for size in self.shape.iter().rev() {
            strides.push(stride);
            stride *= size;
        }
        strides.reverse();
        for counts in [&self.shape, &strides] {
            to.push(opcode::MARK);
            counts.iter().for_each(|count| pickle_int(*count as i64, to));
            to.push(opcode::TUPLE);
        }
        to.push(opcode::NEWFALSE);
        pickle_ordered_dict(to);
        to.extend([opcode::TUPLE, opcode::REDUCE]);
    }
}

fn pickle_entries<'a>(
    entries: &'a [(String, TorchItem<'_>)],
    to: &mut Vec<u8>,
    tensors: &mut Vec<&'a TorchItemTensor<'a>>,
) {
    to.push(opcode::MARK);
    for (name, item) in entries {
        pickle_text(name, to);
        item.pickle(to, tensors);
    }
    to.push(opcode::SETITEMS);
}

fn pickle_ordered_dict(to: &mut Vec<u8>) {
    pickle_global("collections", "OrderedDict", to);
    to.extend([opcode::EMPTY_TUPLE, opcode::REDUCE]);
}

fn pickle_global(module: &str, name: &str, to: &mut Vec<u8>) {
    to.push(opcode::GLOBAL);
    to.extend(format!("{module}\n{name}\n").bytes());
}

fn pickle_text(text: &str, to: &mut Vec<u8>) {
    to.push(opcode::BINUNICODE);
    to.extend((text.len() as u32).to_le_bytes());
    to.extend(text.bytes());
}

fn pickle_int(number: i64, to: &mut Vec<u8>) {
    match i32::try_from(number) {
        Ok(number) => {
            to.push(opcode::BININT);
            to.extend(number.to_le_bytes());
        }
        Err(_) => {
            to.extend([opcode::LONG1, size_of::<i64>() as u8]);
            to.extend(number.to_le_bytes());
        }
    }
}
