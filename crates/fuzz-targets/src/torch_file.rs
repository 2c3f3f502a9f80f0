//! A file of PyTorch: its archive, its pickle, and its tensors as weights.

use std::io::{Cursor, Read, Write};

use terrace_model::Weights;
use terrace_model::torch_file::TorchFile;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::{files, model};

const REPACKED_BYTES: u64 = 1 << 20;

/// As it is, and with checksums put right: no damaged pickle gets behind them.
pub fn run(input: &[u8]) -> bool {
    let accepted = read(input);
    repacked(input).is_some_and(|repacked| read(&repacked)) || accepted
}

fn read(input: &[u8]) -> bool {
    let file = files::file(input);
    let file = match TorchFile::open(file.path()) {
        Ok(file) => file,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    for (name, tensor) in file.value().tensors() {
        let mut bytes = vec![0; tensor.elements() * tensor.dtype().bytes()];
        assert!(bytes.len() <= input.len(), "{name} is larger than its file");
        tensor.copy_to(file.map().bytes(), &mut bytes);
        if let Some(in_place) = file.bytes_in_place(tensor) {
            assert_eq!(in_place, bytes, "{name}");
        }
    }
    let Ok(weights) = Weights::from_torch(&[file]) else { return false };
    model::read_tensors(&weights);
    true
}

/// The same entries in an archive that is whole.
fn repacked(input: &[u8]) -> Option<Vec<u8>> {
    let mut from = ZipArchive::new(Cursor::new(input)).ok()?;
    let mut to = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for index in 0..from.len() {
        let entry = from.by_index_raw(index).ok()?;
        let name = entry.name().ok()?.into_owned();
        let mut content = Vec::new();
        entry.take(REPACKED_BYTES).read_to_end(&mut content).ok()?;
        to.start_file(name, stored).ok()?;
        to.write_all(&content).ok()?;
    }
    Some(to.finish().ok()?.into_inner())
}
