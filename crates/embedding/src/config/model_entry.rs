//! One model and its tables.

use std::collections::HashSet;

use serde_json::Value;

use super::batch_sizes::BATCH_MAX;
use super::fields::Fields;
use super::generation::Form;
use super::gpu_cache::GpuCacheConfig;
use super::model_path::ModelPath;
use super::scalar::shown;
use super::surroundings::Surroundings;
use super::table_config::TableConfig;
use super::table_list::{TableList, check_name};

#[derive(Clone, Debug, PartialEq)]
pub struct ModelTables {
    pub name: String,
    pub tables: Vec<TableConfig>,
    /// Whether the file names the tables. Where it does not, they are called `sparse_embedding0`
    /// and so on, and releases up to 3.3 called them as the network's embedding layers.
    pub are_table_names_given: bool,
    /// `None` where only rows are looked up.
    pub dense_file: Option<ModelPath>,
    pub network_file: Option<ModelPath>,
    /// Samples in one request.
    pub max_batch_size: usize,
    /// The devices that serve the model; at least one.
    pub devices: Vec<u32>,
    /// Look-ups that run at the same time on one device.
    pub worker_buffers: usize,
    /// Refreshes that run at the same time on one device.
    pub refresher_buffers: usize,
    /// The most dense features of a sample; the network says it where it is not given.
    pub max_dense_features: Option<usize>,
    /// Numbers that the model gives for a sample.
    pub label_dim: usize,
    /// Slots of a sample; the network says it where it is not given.
    pub slots: Option<usize>,
    /// `None`: every look-up goes to the levels below the device.
    pub gpu_cache: Option<GpuCacheConfig>,
}

/// A table of requests, and where its rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTable<'a> {
    pub name: &'a str,
    /// Index among the model's tables.
    pub table: usize,
    /// Index among that table's folders.
    pub folder: usize,
}

const COUNT_MAX: u64 = 65_536;
const DEVICE_MAX: u64 = 1_023;

/// What a model entry depends on besides its own fields.
#[derive(Clone, Copy)]
pub struct EntryContext<'a> {
    pub form: Form,
    pub around: &'a Surroundings<'a>,
    /// Whether the file asks for tables of one size to be fused.
    pub is_fused: bool,
}

impl ModelTables {
    /// In the order in which requests have them; tables that are fused stand for themselves.
    pub fn request_tables(&self) -> Vec<RequestTable<'_>> {
        let mut fused = Vec::new();
        let mut others = Vec::new();
        for (table, config) in self.tables.iter().enumerate() {
            for (folder, it) in config.fused.iter().enumerate() {
                fused.push((it.position, RequestTable { name: &it.name, table, folder }));
            }
            if config.fused.is_empty() {
                others.push(RequestTable { name: &config.name, table, folder: 0 });
            }
        }
        fused.sort_by_key(|(position, _)| *position);
        let count = fused.len() + others.len();
        let (mut fused, mut others) = (fused.into_iter().peekable(), others.into_iter());
        let next = |at| match fused.next_if(|(position, _)| *position <= at) {
            Some((_, table)) => Some(table),
            None => others.next(),
        };
        (0..count).filter_map(next).collect()
    }

    /// The models of a file; their names differ.
    pub(super) fn read_all(top: &mut Fields<'_>, context: EntryContext<'_>) -> Vec<Self> {
        let Some(entries) = top.sections("models") else {
            top.missing("models", "a list of at least one model");
            return Vec::new();
        };
        if top.peek("models").and_then(Value::as_array).is_some_and(Vec::is_empty) {
            top.wrong("models", "a list of 0", "at least one model");
        }
        let mut names = HashSet::new();
        let models = entries.into_iter().map(|mut entry| {
            let model = Self::read(&mut entry, context);
            if !model.name.is_empty() && !names.insert(model.name.clone()) {
                let found = format!("{} again", shown(&model.name));
                entry.wrong(&entry.path_of("model"), found, "each name once");
            }
            entry.finish();
            model
        });
        models.collect()
    }

    fn read(fields: &mut Fields<'_>, context: EntryContext<'_>) -> Self {
        let EntryContext { form, around, is_fused } = context;
        if form == Form::DbType {
            fields.accept(&["db_type"]);
        }
        // These act on CUDA's streams, allocator and thread pools, which are arranged otherwise.
        fields.no_effect(&[
            "use_context_stream",
            "use_hctr_cache_implementation",
            "enable_pagelock",
            "thread_pool_size",
        ]);
        let name = read_name(fields);
        let TableList { tables, are_names_given } = TableList::read(fields, around, is_fused);
        let mut count = |name, least| fields.whole(name, least..=COUNT_MAX).map(|n| n as usize);
        let workers = count("num_of_worker_buffer_in_pool", 1).unwrap_or(1);
        let refreshers = count("num_of_refresher_buffer_in_pool", 0).unwrap_or(1);
        let max_dense_features = count("maxnum_des_feature_per_sample", 0);
        let label_dim = count("label_dim", 1).unwrap_or(1);
        let slots = count("slot_num", 1);
        let batch = fields.whole("max_batch_size", 1..=BATCH_MAX).unwrap_or(64);
        // Tables that are fused ask for their rows at the same time.
        let askers: usize = tables.iter().map(|table| table.fused.len()).sum();
        ModelTables {
            name,
            tables,
            are_table_names_given: are_names_given,
            dense_file: ModelPath::read(fields, "dense_file", around.folder),
            network_file: ModelPath::read(fields, "network_file", around.folder),
            max_batch_size: batch as usize,
            devices: read_devices(fields),
            worker_buffers: workers.max(askers),
            refresher_buffers: refreshers,
            max_dense_features,
            label_dim,
            slots,
            gpu_cache: GpuCacheConfig::read(fields, form.generation()),
        }
    }
}

fn read_name(fields: &mut Fields<'_>) -> String {
    let Some(name) = fields.text("model") else {
        fields.missing("model", "the model's name");
        return String::new();
    };
    check_name(fields, &fields.path_of("model"), name);
    name.to_owned()
}

fn read_devices(fields: &mut Fields<'_>) -> Vec<u32> {
    let name = "deployed_device_list";
    let Some(devices) = fields.wholes(name, 0..=DEVICE_MAX) else { return vec![0] };
    let mut seen = HashSet::new();
    if let Some(twice) = devices.iter().find(|device| !seen.insert(**device)) {
        fields.wrong(&fields.path_of(name), format_args!("{twice} again"), "each device once");
    }
    if devices.is_empty() {
        fields.wrong(&fields.path_of(name), "a list of 0", "at least one device");
    }
    devices.into_iter().map(|device| device as u32).collect()
}
