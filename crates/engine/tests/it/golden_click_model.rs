//! Golden click-through models as tests start them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use terrace_device::Device;
use terrace_embedding::{
    ModelPath, ParameterServer, PlaceBudgets, PsConfig, SparseFolder, StartOptions,
};
use terrace_engine::predict::{
    BatchPolicy, InstancePlace, Joining, PredictModel, PredictSetup, PredictTables, VcsrRequest,
};
use terrace_golden::GoldenTensors;
use terrace_model::ctr::{CtrNetwork, CtrWeights};
use terrace_testkit::golden_set;

/// Of probabilities; f32 against f64.
const TOLERANCE: f64 = 1e-6;

/// A golden model: its files, and a server of its tables.
pub struct Golden {
    folder: PathBuf,
    pub config: PsConfig,
    pub server: Arc<ParameterServer>,
    pub network: Arc<CtrNetwork>,
}

impl Golden {
    pub fn open(model: &str) -> Self {
        Self::open_on(model, &[Device::Cpu], |_| ())
    }

    /// With tables cached on these devices, and a configuration that is changed.
    pub fn open_on(model: &str, devices: &[Device], change: impl FnOnce(&mut PsConfig)) -> Self {
        let folder = golden_set("ctr").join(model);
        let (mut config, _) =
            PsConfig::read(&folder.join("ps.json"), 2).expect("its configuration");
        change(&mut config);
        let server = Arc::new(start_tables(&config, devices));
        let network = config.models[0].network_file.as_ref().expect("a network");
        let network = std::fs::read(local(network)).expect("its network");
        let network = Arc::new(CtrNetwork::parse(&network).expect("a network"));
        Golden { folder, config, server, network }
    }

    pub fn weights(&self) -> CtrWeights {
        let dense = self.config.models[0].dense_file.as_ref().expect("dense weights");
        let bytes = std::fs::read(local(dense)).expect("its dense weights");
        CtrWeights::from_hugectr(&self.network, &bytes).expect("they fit")
    }

    pub fn start(&self, instances: usize, joining: Option<Joining>) -> PredictModel {
        self.start_model(0, &vec![0; instances], joining)
    }

    /// A model of its configuration, with an instance for each cache that is named.
    pub fn start_model(
        &self,
        model: usize,
        caches: &[usize],
        joining: Option<Joining>,
    ) -> PredictModel {
        let model = &self.config.models[model];
        let tables = PredictTables::find(&self.server, model, self.network.inputs());
        let tables = tables.expect("its tables");
        let keys_most = model.tables.iter().map(|table| table.max_keys_per_sample).collect();
        let (max_samples, max_waiting) = (model.max_batch_size, 1024);
        let setup = PredictSetup {
            name: model.name.clone(),
            network: Arc::clone(&self.network),
            weights: self.weights(),
            tables,
            keys_most,
            key_kind: self.config.key_kind,
            batching: BatchPolicy { max_samples, joining, max_waiting },
            places: caches.iter().map(|cache| InstancePlace { gpu: None, cache: *cache }).collect(),
            mixed_precision: false,
            threads: 1,
            cuda_libs: Vec::new(),
        };
        setup.start().expect("the model starts")
    }

    /// Requests and the probabilities they shall have.
    pub fn cases(&self) -> Vec<(VcsrRequest, Vec<f64>)> {
        let listed = std::fs::read_dir(&self.folder).expect("its folder");
        let mut paths: Vec<PathBuf> = listed.map(|entry| entry.expect("an entry").path()).collect();
        paths.retain(|path| file_name(path).starts_with("case_"));
        paths.sort();
        assert!(!paths.is_empty(), "{} has no cases", self.folder.display());
        paths.iter().map(|path| case(path)).collect()
    }
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn local(path: &ModelPath) -> &Path {
    match path {
        ModelPath::Local(path) => path,
        ModelPath::ObjectStore(url) => panic!("no object store here: {url}"),
    }
}

fn case(path: &Path) -> (VcsrRequest, Vec<f64>) {
    let tensors = GoldenTensors::read(path).expect("a case");
    let keys = match tensors.u32s("CATCOLUMN") {
        Ok(keys) => keys.iter().map(|key| i64::from(*key)).collect(),
        Err(_) => tensors.i64s("CATCOLUMN").expect("keys").to_vec(),
    };
    let request = VcsrRequest {
        dense: tensors.f32s("DES").expect("dense features").to_vec(),
        keys,
        row_offsets: tensors.i32s("ROWINDEX").expect("offsets").to_vec(),
    };
    (request, tensors.f64s("OUTPUT0").expect("probabilities").to_vec())
}

fn start_tables(config: &PsConfig, devices: &[Device]) -> ParameterServer {
    let options = StartOptions {
        devices: devices.to_vec(),
        host_name: "host".to_owned(),
        library_folders: Vec::new(),
        redis_time: Duration::from_millis(500),
        read_time: Duration::from_secs(5),
        threads: 2,
        budgets: PlaceBudgets { device: 1 << 30, ram: 1 << 30 },
        open: &|path, dim| SparseFolder::open(local(path), dim),
        progress: &mut |_, _| (),
        say: &mut |_| (),
    };
    ParameterServer::start(config, options).expect("its tables")
}

pub fn check(name: &str, found: &[f32], want: &[f64]) {
    assert_eq!(found.len(), want.len(), "{name}");
    for (at, (found, want)) in found.iter().zip(want).enumerate() {
        let apart = (f64::from(*found) - want).abs();
        assert!(apart <= TOLERANCE, "{name}, sample {at}: {found} instead of {want}");
    }
}
