//! A parameter server with one table of rows that follow from their keys, read from no disk.

use std::io;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;
use terrace_device::Device;
use terrace_device::cuda::{CudaDevice, CudaInfo};
use terrace_embedding::{
    ParameterServer, PlaceBudgets, PsConfig, SparseFolder, StartOptions, StoredFile, Surroundings,
};
use terrace_engine::predict::PredictTables;
use terrace_kernels::random::SplitMix;
use terrace_model::ctr::CtrNetwork;

use super::dlrm::{Dlrm, MODEL, TABLE};

pub struct MadeUpTables {
    server: Arc<ParameterServer>,
    config: PsConfig,
}

impl MadeUpTables {
    pub fn of(&self, network: &CtrNetwork) -> Result<PredictTables> {
        Ok(PredictTables::find(&self.server, &self.config.models[0], network.inputs())?)
    }
}

/// A row of a key.
pub fn row_of(key: i64, dim: usize) -> Vec<f32> {
    let mut random = SplitMix::new(key.cast_unsigned());
    random.numbers(dim).into_iter().map(|number| number * ROW_SCALE).collect()
}

/// Such that dot products of two rows are about as large as numbers of layers.
const ROW_SCALE: f32 = 0.2;

/// With all rows in memory, and in a hot cache on the device.
pub fn start_tables(
    dlrm: &Dlrm,
    rows: usize,
    max_samples: usize,
    gpu: Option<&CudaInfo>,
) -> Result<MadeUpTables> {
    let cores = available_parallelism().map_or(1, usize::from);
    let around = Surroundings { folder: None, model_name: None, cores };
    let (config, _) = PsConfig::from_value(
        &json!({
            "supportlonglong": true,
            "volatile_db": {"type": "parallel_hash_map", "num_partitions": cores},
            "models": [{
                "model": MODEL,
                "sparse_files": [TABLE],
                "embedding_table_names": [TABLE],
                "embedding_vecsize_per_table": [dlrm.dim],
                "maxnum_catfeature_query_per_table_per_sample": [dlrm.slots],
                "default_value_for_each_table": [0.0],
                "deployed_device_list": [0],
                "max_batch_size": max_samples,
                "gpucache": true,
                "gpucacheper": 1.0,
                "embedding_cache_type": "static",
            }],
        }),
        &around,
    )?;
    let device = match gpu {
        Some(gpu) => Device::Cuda(CudaDevice::open(gpu)?),
        None => Device::Cpu,
    };
    let dim = dlrm.dim;
    let server = ParameterServer::start(
        &config,
        StartOptions {
            devices: vec![device],
            host_name: "localhost".to_owned(),
            library_folders: Vec::new(),
            redis_time: Duration::from_secs(1),
            read_time: Duration::from_secs(60),
            threads: 1,
            budgets: PlaceBudgets { device: u64::MAX, ram: u64::MAX },
            open: &|_, wanted| {
                let rows = rows as u64;
                let file = |what: MadeUp| Box::new(MadeUpFile { rows, what });
                SparseFolder::new(
                    TABLE.to_owned(),
                    file(MadeUp::Keys),
                    file(MadeUp::Rows { dim }),
                    wanted,
                )
            },
            progress: &mut |_, _| (),
            say: &mut |_| (),
        },
    );
    Ok(MadeUpTables { server: Arc::new(server.context("the table cannot be served")?), config })
}

/// A file of a table with the keys `0..rows`.
struct MadeUpFile {
    rows: u64,
    what: MadeUp,
}

#[derive(Clone, Copy)]
enum MadeUp {
    Keys,
    Rows { dim: usize },
}

impl MadeUpFile {
    fn entry_bytes(&self) -> u64 {
        match self.what {
            MadeUp::Keys => size_of::<i64>() as u64,
            MadeUp::Rows { dim } => (dim * size_of::<f32>()) as u64,
        }
    }

    fn entry(&self, key: i64) -> Vec<u8> {
        match self.what {
            MadeUp::Keys => key.to_le_bytes().to_vec(),
            MadeUp::Rows { dim } => {
                row_of(key, dim).into_iter().flat_map(f32::to_le_bytes).collect()
            }
        }
    }
}

impl StoredFile for MadeUpFile {
    fn path(&self) -> &str {
        TABLE
    }

    fn bytes(&self) -> u64 {
        self.rows * self.entry_bytes()
    }

    fn modified_ms(&self) -> u64 {
        0
    }

    fn read_at(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        if self.bytes() < offset + to.len() as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (mut at, mut rest) = (offset, to);
        while !rest.is_empty() {
            let entry = self.entry((at / self.entry_bytes()).cast_signed());
            let entry = &entry[(at % self.entry_bytes()) as usize..];
            let (now, later) = rest.split_at_mut(entry.len().min(rest.len()));
            now.copy_from_slice(&entry[..now.len()]);
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_reads_the_same_in_any_pieces() {
        for what in [MadeUp::Keys, MadeUp::Rows { dim: 3 }] {
            let file = MadeUpFile { rows: 5, what };
            let mut whole = vec![0; file.bytes() as usize];
            file.read_at(0, &mut whole).expect("all of it");
            for (offset, count) in [(0, 1), (3, 9), (7, 20), (16, 24)] {
                let mut piece = vec![0; count];
                file.read_at(offset, &mut piece).expect("a piece");
                assert_eq!(piece, whole[offset as usize..][..count]);
            }
            assert!(file.read_at(file.bytes() - 1, &mut [0; 2]).is_err());
        }
    }
}
