//! A click-through model put together by hand, with logic of one's own around it.
//!
//!     cargo run --example click_model
//!
//! Tables, network, weights and executor are built one by one and handed to the model. Here the
//! executor is wrapped: its probabilities are calibrated before anybody sees them, as is done where
//! training saw only some of those who did not click.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use terrace_device::Device;
use terrace_embedding::{
    KeyKind, ModelPath, ParameterServer, PlaceBudgets, PsConfig, SparseFolder, StartOptions,
    Surroundings,
};
use terrace_engine::Error;
use terrace_engine::predict::{
    BatchPolicy, Computed, CpuPredictExecutor, PredictExecutor, PredictModel, PredictParts,
    PredictTables, RequestShape, Samples, SlotsOfTable, VcsrRequest,
};
use terrace_kernels::{Compute, CpuOptions, Ops};
use terrace_model::ctr::{CtrNetwork, CtrWeights};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/click_demo/click_demo/1");
const SAMPLES: usize = 16;

/// An executor whose odds are multiplied.
struct Calibrated<Inner> {
    inner: Inner,
    odds: f32,
}

impl<Inner: PredictExecutor> PredictExecutor for Calibrated<Inner> {
    fn run(&mut self, samples: &Samples, out: &mut [f32]) -> Result<Computed, Error> {
        let computed = self.inner.run(samples, out)?;
        for probability in out {
            let odds = *probability / (1.0 - *probability) * self.odds;
            *probability = odds / (1.0 + odds);
        }
        Ok(computed)
    }

    fn replace_weights(&mut self, safetensors: &[u8]) -> Result<(), Error> {
        self.inner.replace_weights(safetensors)
    }
}

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    // A person of segment 3 with interests 4 and 9 sees ad 17 of category 4 on device 0 at 8 pm.
    let [segment, interests, ad, category, device, hour] = [0, 16, 28, 228, 240, 244];
    let request = || VcsrRequest {
        dense: vec![0.3, 0.1, 0.0],
        keys: vec![
            segment + 3,
            interests + 4,
            interests + 9,
            ad + 17,
            category + 4,
            device,
            hour + 20,
        ],
        row_offsets: vec![0, 1, 3, 4, 5, 6, 7],
    };
    for odds in [1.0, 0.25] {
        let model = build(odds)?;
        let answer = model.predict_blocking(model.check(request())?)?;
        println!("odds x {odds}: {:.4}", answer.numbers[0]);
    }
    Ok(())
}

fn build(odds: f32) -> Result<PredictModel, Failure> {
    let folder = Path::new(FOLDER);

    // The network, and its dense weights as HugeCTR wrote them.
    let network = CtrNetwork::parse(&std::fs::read(folder.join("click_demo.json"))?)?;
    let dense = std::fs::read(folder.join("click_demo_dense_3000.model"))?;
    let weights = CtrWeights::from_hugectr(&network, &dense)?;
    let network = Arc::new(network);

    // The table, in memory; it may as well be in any levels of a parameter server.
    let config = table_config(folder)?;
    let server = Arc::new(start_tables(&config)?);
    let tables = PredictTables::find(&server, &config.models[0], network.inputs())?;

    // One instance on the CPU, in the wrapper.
    let ops = Ops::cpu(CpuOptions { threads: 1, level: None, compute: Compute::F32 })?;
    let inner = CpuPredictExecutor::new(ops, &network, &weights, tables, 0, SAMPLES)?;
    let inputs = network.inputs();
    let shape = RequestShape {
        dense: inputs.dense_dim,
        tables: SlotsOfTable::all(inputs, &[]),
        key_kind: KeyKind::I64,
        outputs: network.output_width(),
        max_samples: SAMPLES,
    };
    let batching = BatchPolicy { max_samples: SAMPLES, joining: None, max_waiting: 64 };
    let parts = PredictParts {
        name: "calibrated".to_owned(),
        shape,
        batching,
        executors: vec![Box::new(Calibrated { inner, odds })],
        weights: None,
    };
    Ok(PredictModel::start(parts)?)
}

fn table_config(folder: &Path) -> Result<PsConfig, Failure> {
    let config = json!({"supportlonglong": true, "models": [{
        "model": "calibrated",
        "sparse_files": ["click_demo0_sparse_3000.model"],
        "default_value_for_each_table": [0.0],
        "deployed_device_list": [0],
        "gpucache": false,
    }]});
    let around = Surroundings { folder: Some(folder), model_name: None, cores: 1 };
    Ok(PsConfig::from_value(&config, &around)?.0)
}

fn start_tables(config: &PsConfig) -> Result<ParameterServer, Failure> {
    let options = StartOptions {
        devices: vec![Device::Cpu],
        host_name: "example".to_owned(),
        library_folders: Vec::new(),
        redis_time: Duration::from_millis(500),
        read_time: Duration::from_secs(2),
        threads: 1,
        budgets: PlaceBudgets { device: 0, ram: 0 },
        open: &|path, dim| match path {
            ModelPath::Local(path) => SparseFolder::open(path, dim),
            ModelPath::ObjectStore(url) => SparseFolder::open(Path::new(url), dim),
        },
        progress: &mut |_, _| (),
        say: &mut |text| eprintln!("{text}"),
    };
    Ok(ParameterServer::start(config, options)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odds_are_multiplied() {
        let request = || VcsrRequest {
            dense: vec![0.0; 3],
            keys: (0..6).collect(),
            row_offsets: (0..7).collect(),
        };
        let [plain, fewer] = [1.0, 0.5].map(|odds| {
            let model = build(odds).expect("the demo model");
            let samples = model.check(request()).expect("it adds up");
            model.predict_blocking(samples).expect("an answer").numbers[0]
        });
        let odds = |probability: f32| probability / (1.0 - probability);
        assert!(plain > 0.0 && plain < 1.0);
        assert!((odds(fewer) / odds(plain) - 0.5).abs() < 1e-4, "{plain} and {fewer}");
    }
}
