//! The zip archive around a pickle and its storages.
//!
//! PyTorch stores entries as they are, so a storage is a range of the file. A compressed one could
//! not be mapped, and no version of PyTorch writes such; it is refused.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::ops::Range;

use zip::{CompressionMethod, ZipArchive};

pub struct Archive {
    pub pickle: Vec<u8>,
    /// Byte ranges of the file, by the storages' keys.
    pub storages: BTreeMap<String, Range<usize>>,
}

/// A pickle has names, shapes and settings; more than this is no checkpoint.
const PICKLE_BYTES_MOST: u64 = 64 << 20;
/// Entries of the archive; every storage is one.
const ENTRIES_MOST: usize = 1 << 20;
const ZIP_MAGIC: &[u8] = b"PK\x03\x04";
/// Protocol 2 of pickles.
const PICKLE_MAGIC: &[u8] = b"\x80\x02";

impl Archive {
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        if !bytes.starts_with(ZIP_MAGIC) {
            return Err(not_an_archive(bytes));
        }
        let mut zip = ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
        if zip.len() > ENTRIES_MOST {
            return Err(format!("{} entries, the limit is {ENTRIES_MOST}", zip.len()));
        }
        let entries = Entries::read(&mut zip, bytes.len())?;
        entries.check_byte_order(bytes)?;
        let pickle = entries.pickle(&mut zip)?;
        let prefix = format!("{}data/", entries.prefix);
        let storages = entries.ranges.into_iter().filter_map(|(name, range)| {
            name.strip_prefix(&prefix).map(|key| (key.to_owned(), range))
        });
        Ok(Archive { pickle, storages: storages.collect() })
    }
}

/// Reads all entries and compares their checksums.
pub fn check_sums(bytes: &[u8]) -> Result<(), String> {
    let mut zip = ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    for index in 0..zip.len() {
        let mut entry = zip.by_index(index).map_err(|error| error.to_string())?;
        if let Err(error) = std::io::copy(&mut entry, &mut std::io::sink()) {
            let name = entry.name().map_err(|error| error.to_string())?.into_owned();
            return Err(format!(
                "{name} is damaged, or was written without checksums \
                 (torch.serialization.set_crc32_options(False)): {error}; copy the file again, or \
                 load it with torch.load and write it again with torch.save"
            ));
        }
    }
    Ok(())
}

fn not_an_archive(bytes: &[u8]) -> String {
    if bytes.starts_with(PICKLE_MAGIC) {
        return "this is the form that PyTorch wrote before 1.6, without an archive; load it with \
                torch.load and write it again with torch.save"
            .to_owned();
    }
    "it is not a zip archive, which files of torch.save are".to_owned()
}

/// Where entries lie in the file, by their whole names.
struct Entries {
    /// The folder that all entries are in, with a slash.
    prefix: String,
    ranges: BTreeMap<String, Range<usize>>,
    pickle_index: usize,
}

impl Entries {
    fn read(zip: &mut ZipArchive<Cursor<&[u8]>>, file_bytes: usize) -> Result<Self, String> {
        let file_bytes = file_bytes as u64;
        let mut ranges = BTreeMap::new();
        let mut pickles = Vec::new();
        for index in 0..zip.len() {
            let entry = zip.by_index_raw(index).map_err(|error| error.to_string())?;
            let name = entry.name().map_err(|error| error.to_string())?.into_owned();
            if entry.compression() != CompressionMethod::Stored || entry.encrypted() {
                return Err(format!(
                    "{name} is compressed or encrypted, so it cannot be mapped; write the file \
                     again with torch.save"
                ));
            }
            if let Some(prefix) = name.strip_suffix("data.pkl")
                && prefix.matches('/').count() == 1
            {
                pickles.push((prefix.to_owned(), index));
            }
            let start = entry.data_start().ok_or_else(|| format!("{name} lies nowhere"))?;
            let end = start.checked_add(entry.size()).filter(|end| *end <= file_bytes);
            let end = end.ok_or_else(|| format!("{name} reaches behind the file's end"))?;
            if ranges.insert(name.clone(), start as usize..end as usize).is_some() {
                return Err(format!("{name} is there twice"));
            }
        }
        let [(prefix, pickle_index)] = &pickles[..] else {
            return Err(format!(
                "it has {} entries FOLDER/data.pkl; files of torch.save have one",
                pickles.len()
            ));
        };
        Ok(Entries { prefix: prefix.clone(), ranges, pickle_index: *pickle_index })
    }

    /// Versions before 2.1 did not write one, and ran on little-endian machines.
    fn check_byte_order(&self, bytes: &[u8]) -> Result<(), String> {
        let Some(range) = self.ranges.get(&format!("{}byteorder", self.prefix)) else {
            return Ok(());
        };
        match &bytes[range.clone()] {
            b"little" => Ok(()),
            b"big" => Err("its numbers are big-endian; load it with torch.load on a \
                           little-endian machine and write it again with torch.save"
                .to_owned()),
            _ => Err("its byte order is neither little nor big".to_owned()),
        }
    }

    /// Its checksum is compared.
    fn pickle(&self, zip: &mut ZipArchive<Cursor<&[u8]>>) -> Result<Vec<u8>, String> {
        let entry = zip.by_index(self.pickle_index).map_err(|error| error.to_string())?;
        let bytes = entry.size();
        if bytes > PICKLE_BYTES_MOST {
            return Err(format!("a pickle of {bytes} bytes, the limit is {PICKLE_BYTES_MOST}"));
        }
        let mut pickle = Vec::with_capacity(bytes as usize);
        let read = entry.take(PICKLE_BYTES_MOST).read_to_end(&mut pickle);
        read.map_err(|error| format!("data.pkl: {error}"))?;
        Ok(pickle)
    }
}
