//! Opens the tables of a parameter server as the options say, and shows how far it has come.

use std::cell::RefCell;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use terrace_device::Device;
use terrace_device::cuda::{self, CudaDevice};
use terrace_embedding::{
    DatabaseOptions, HotCache, Level, LoadProgress, ParameterServer, PlaceBudgets, Placement,
    PsConfig, ServedTable, SetOptions, StartProgress,
};
use terrace_engine::DeviceChoice;

use crate::open_folder::open_folder;
use crate::open_model::free_memory_bytes;
use crate::options::PsOptions;
use crate::progress;
use crate::ps_source::PsSource;
use crate::table_databases::TableDatabases;

/// Tables that are served, and what others can be served beside.
pub struct OpenedTables {
    pub databases: TableDatabases,
    /// `None` where there are none but those of a repository's models.
    pub set: Option<Arc<ParameterServer>>,
}

/// All tables of a configuration; `None` where there is none.
pub fn open(options: &PsOptions, device: DeviceChoice) -> Result<Option<Arc<ParameterServer>>> {
    match options.source()? {
        Some(source) => Ok(open_source(&source, options, device, None)?.set),
        None => Ok(None),
    }
}

/// What the models of a repository need, and the tables of all other models.
pub fn open_for_repository(
    options: &PsOptions,
    device: DeviceChoice,
    models: &[String],
) -> Result<OpenedTables> {
    match options.source()? {
        Some(source) => open_source(&source, options, device, Some(models)),
        None => {
            let options = database_options(options, gpus(device, None)?, None)?;
            Ok(OpenedTables { databases: TableDatabases::in_memory(options), set: None })
        }
    }
}

/// What the tables of one model need.
pub fn open_databases(options: &PsOptions, device: DeviceChoice) -> Result<TableDatabases> {
    let devices = gpus(device, None)?;
    let Some(source) = options.source()? else {
        return Ok(TableDatabases::in_memory(database_options(options, devices, None)?));
    };
    let (config, _) = source.read(cores())?;
    let options = database_options(options, devices, Some(&config))?;
    TableDatabases::open(&config, options, &mut |text| eprintln!("note: {text}"))
}

/// `of_repository`: models whose tables come with them.
fn open_source(
    source: &PsSource,
    options: &PsOptions,
    device: DeviceChoice,
    of_repository: Option<&[String]>,
) -> Result<OpenedTables> {
    let name = source.name();
    let (mut config, warnings) = source.read(cores())?;
    for warning in warnings {
        eprintln!("warning: {name}: {warning}");
    }
    let devices = match of_repository {
        Some(_) => gpus(device, None)?,
        None => devices(device, &config)?,
    };
    config.models.retain(|model| !of_repository.is_some_and(|it| it.contains(&model.name)));
    let options = database_options(options, devices, Some(&config))?;
    let bars = RefCell::new(LoadBars::default());
    let mut say = |text| {
        bars.borrow_mut().clear();
        eprintln!("note: {text}");
    };
    let wrong = || format!("cannot serve the tables of {name}");
    let databases = TableDatabases::open(&config, options, &mut say).with_context(wrong)?;
    if config.models.is_empty() {
        return Ok(OpenedTables { databases, set: None });
    }
    let progress = &mut |table: &str, at| bars.borrow_mut().show(table, at);
    let set = SetOptions { open: &open_folder, progress, say: &mut say };
    let set = ParameterServer::start_beside(&databases.of(&config)?, &config, set);
    bars.borrow_mut().clear();
    let set = Arc::new(set.with_context(wrong)?);
    set.tables().iter().for_each(|table| println!("{}", table_line(table)));
    Ok(OpenedTables { databases, set: Some(set) })
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn database_options(
    options: &PsOptions,
    devices: Vec<Device>,
    config: Option<&PsConfig>,
) -> Result<DatabaseOptions> {
    let budgets = config.map(|config| budgets(options, config, &devices)).transpose()?;
    Ok(DatabaseOptions {
        budgets: budgets.unwrap_or(PlaceBudgets { device: 0, ram: 0 }),
        devices,
        host_name: host_name(),
        library_folders: options.library_folders(),
        redis_time: options.redis_time(),
        read_time: options.read_time(),
        threads: options.threads(cores()),
    })
}

/// By the numbers of the configuration: GPUs where models would compute on one, else the CPU.
fn devices(choice: DeviceChoice, config: &PsConfig) -> Result<Vec<Device>> {
    let cached = config.models.iter().filter(|model| model.gpu_cache.is_some());
    match cached.flat_map(|model| &model.devices).max() {
        Some(last) => gpus(choice, Some(*last)),
        None => Ok(vec![Device::Cpu]),
    }
}

/// All GPUs, or those up to the last that is wanted; the CPU where none is to be used.
fn gpus(choice: DeviceChoice, last: Option<u32>) -> Result<Vec<Device>> {
    if choice.find()?.is_none() {
        return Ok(vec![Device::Cpu]);
    }
    let gpus = cuda::probe().context("cannot open the GPUs that tables are cached on")?;
    let wanted = last.map_or(usize::MAX, |last| (last as usize).saturating_add(1));
    gpus.iter().take(wanted).map(|gpu| Ok(Device::Cuda(CudaDevice::open(gpu)?))).collect()
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
