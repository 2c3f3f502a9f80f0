//! Opens the tables of a parameter server as the options say, and shows how far it has come.

use std::cell::RefCell;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use terrace_device::Device;
use terrace_device::cuda::{self, CudaDevice};
use terrace_embedding::{
    HotCache, Level, LoadProgress, ParameterServer, PlaceBudgets, Placement, PsConfig, ServedTable,
    StartOptions, StartProgress,
};
use terrace_engine::DeviceChoice;

use crate::open_folder::open_folder;
use crate::open_model::free_memory_bytes;
use crate::options::PsOptions;
use crate::progress;

/// `None` where no tables are to be served.
pub fn open(options: &PsOptions, device: DeviceChoice) -> Result<Option<Arc<ParameterServer>>> {
    let Some(source) = options.source()? else { return Ok(None) };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (config, warnings) = source.read(cores)?;
    let name = source.name();
    for warning in warnings {
        eprintln!("warning: {name}: {warning}");
    }
    let devices = devices(device, &config)?;
    let bars = RefCell::new(LoadBars::default());
    let start = StartOptions {
        budgets: budgets(options, &config, &devices)?,
        devices,
        host_name: host_name(),
        library_folders: options.library_folders(),
        redis_time: options.redis_time(),
        read_time: options.read_time(),
        threads: options.threads(cores),
        open: &open_folder,
        progress: &mut |table, at| bars.borrow_mut().show(table, at),
        say: &mut |text| {
            bars.borrow_mut().clear();
            eprintln!("note: {text}");
        },
    };
    let server = ParameterServer::start(&config, start);
    bars.borrow_mut().clear();
    let server = server.with_context(|| format!("cannot serve the tables of {name}"))?;
    server.tables().iter().for_each(|table| println!("{}", table_line(table)));
    Ok(Some(Arc::new(server)))
}

/// By the numbers of the configuration: GPUs where models would compute on one, else the CPU.
fn devices(choice: DeviceChoice, config: &PsConfig) -> Result<Vec<Device>> {
    let cached = config.models.iter().filter(|model| model.gpu_cache.is_some());
    let last = cached.flat_map(|model| &model.devices).max();
    let (Some(last), Some(_)) = (last, choice.find()?) else { return Ok(vec![Device::Cpu]) };
    let gpus = cuda::probe().context("cannot open the GPUs of deployed_device_list")?;
    let wanted = gpus.iter().take((*last as usize).saturating_add(1));
    wanted.map(|gpu| Ok(Device::Cuda(CudaDevice::open(gpu)?))).collect()
}

/// What tables may take where the server places them.
fn budgets(options: &PsOptions, config: &PsConfig, devices: &[Device]) -> Result<PlaceBudgets> {
    let given = [options.ps_device_budget, options.ps_ram_budget];
    if config.placement == Placement::Configured {
        if given.iter().any(Option::is_some) {
            bail!(
                "--ps-device-budget and --ps-ram-budget are for placement = \"auto\", and this \
                 configuration places its tables itself"
            );
        }
        return Ok(PlaceBudgets { device: 0, ram: 0 });
    }
    let [device, ram] = given.map(|size| size.map(|size| size.0 as u64));
    let free = devices.iter().filter_map(Device::free_bytes).min();
    let device = device.unwrap_or_else(|| free.map_or(0, |bytes| bytes as u64 / 5 * 4));
    let ram = ram.or_else(|| free_memory_bytes().map(|bytes| bytes / 2));
    let ram = ram.context("this system does not say how much memory is free; --ps-ram-budget")?;
    Ok(PlaceBudgets { device, ram })
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn table_line(table: &ServedTable) -> String {
    let spec = table.spec();
    let (model, name) = spec.tag.names();
    let levels: Vec<&str> = table.levels().levels().iter().map(Level::name).collect();
    let levels = if levels.is_empty() { "no level".to_owned() } else { levels.join(", ") };
    let caches = table.caches().iter().map(|cache| {
        let slots = cache.cache().slots();
        match cache.cache() {
            HotCache::Host(_) => format!(", {slots} rows cached in memory"),
            HotCache::Cuda(cache) => format!(", {slots} rows cached on cuda:{}", cache.ordinal()),
        }
    });
    let caches: String = caches.collect();
    format!("table    {model}.{name}: rows of {} numbers in {levels}{caches}", spec.dim)
}

/// One bar at a time: that of what is going on.
#[derive(Default)]
struct LoadBars {
    /// What it shows.
    label: String,
    bar: Option<ProgressBar>,
}

impl LoadBars {
    fn show(&mut self, table: &str, at: StartProgress) {
        let (label, done, of) = match at {
            StartProgress::Load(LoadProgress::Checked { bytes, of }) => {
                (format!("comparing {table}"), bytes, of)
            }
            StartProgress::Load(LoadProgress::Loaded { rows, of }) => {
                (format!("loading {table}"), rows, of)
            }
            StartProgress::Ram { rows, of } => (format!("{table} into memory"), rows, of),
            StartProgress::Warmed { .. } => return self.clear(),
        };
        if self.label != label {
            self.clear();
            let is_bytes = matches!(at, StartProgress::Load(LoadProgress::Checked { .. }));
            let bar = match is_bytes {
                true => progress::bytes(label.clone(), of),
                false => progress::rows(label.clone(), of),
            };
            self.bar = Some(bar);
            self.label = label;
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }

    fn clear(&mut self) {
        self.label.clear();
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
