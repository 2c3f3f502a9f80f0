//! How a model is to be served, as its `config.pbtxt` says.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use terrace_embedding::ModelTables;
use terrace_engine::predict::{BatchPolicy, Joining};
use terrace_server::kserve::ModelConfig;
use terrace_server::kserve::messages::model_config::SchedulingChoice;
use terrace_server::kserve::messages::model_instance_group::Kind;
use terrace_server::kserve::messages::model_version_policy::PolicyChoice;
use terrace_server::kserve::messages::{ModelDynamicBatching, ModelInstanceGroup};

use super::model_parameters::ModelParameters;
use super::version_files::NamedFiles;
use crate::open_folder::model_path;

pub struct Deployment {
    pub backend: Backend,
    pub batching: BatchPolicy,
    pub instances: Vec<Instances>,
    pub mixed_precision: bool,
    pub parameters: ModelParameters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A network over tables.
    Hugectr,
    /// Tables alone.
    Hps,
}

/// Some instances of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instances {
    pub count: usize,
    pub kind: InstanceKind,
    /// Numbers of GPUs; empty: those of the tables.
    pub gpus: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceKind {
    /// A GPU where there is one.
    Auto,
    Gpu,
    Cpu,
}

/// Samples of a batch where nothing says it: HugeCTR's own default.
const SAMPLES: usize = 64;
const SAMPLES_MOST: i32 = 1 << 20;
const INSTANCES_MOST: i32 = 256;
/// Requests that wait where nothing says it.
const WAITING: usize = 4096;

impl Deployment {
    /// `tables`: what ps.json says of the model, if anything.
    pub fn of(config: &ModelConfig, tables: Option<&ModelTables>) -> Result<Self> {
        let backend = match config.backend.as_str() {
            "" | "hugectr" => Backend::Hugectr,
            "hps" => Backend::Hps,
            other => bail!(
                "its backend is {other:?}; models of \"hugectr\" and \"hps\" are served from a \
                 repository"
            ),
        };
        let parameters = ModelParameters::read(config)?;
        let max_samples = match config.max_batch_size {
            0 => tables.map_or(SAMPLES, |tables| tables.max_batch_size),
            size @ 1..=SAMPLES_MOST => size as usize,
            size => bail!("max_batch_size is {size}; allowed are 0 to {SAMPLES_MOST}"),
        };
        let batching = match &config.scheduling_choice {
            None => None,
            Some(SchedulingChoice::DynamicBatching(dynamic)) => Some(dynamic),
            Some(SchedulingChoice::SequenceBatching(_)) => {
                bail!("sequence_batching is for models with a state, which these have not");
            }
            Some(SchedulingChoice::EnsembleScheduling(_)) => {
                bail!("ensemble_scheduling is not served; ask the models one after the other");
            }
        };
        Ok(Deployment {
            backend,
            batching: policy(max_samples, batching)?,
            instances: instances(&config.instance_group)?,
            mixed_precision: parameters.mixed_precision.unwrap_or(false),
            parameters,
        })
    }

    /// Numbers of the GPUs that instances are on, each once.
    pub fn gpus(&self) -> Vec<u32> {
        let gpus: BTreeSet<u32> = self.instances.iter().flat_map(|it| it.gpus.clone()).collect();
        gpus.into_iter().collect()
    }

    /// Files that `config.pbtxt` names.
    pub fn named_files(&self) -> NamedFiles {
        let path = |text: &Option<String>| text.as_ref().map(PathBuf::from);
        NamedFiles {
            network: path(&self.parameters.config),
            dense: path(&self.parameters.dense_file),
            sparse: self.parameters.sparse_files.iter().map(|text| model_path(text)).collect(),
        }
    }
}

fn policy(max_samples: usize, dynamic: Option<&ModelDynamicBatching>) -> Result<BatchPolicy> {
    let Some(dynamic) = dynamic else {
        return Ok(BatchPolicy { max_samples, joining: None, max_waiting: WAITING });
    };
    let size = |size: &i32| match usize::try_from(*size) {
        Ok(size) if (1..=max_samples).contains(&size) => Ok(size),
        _ => bail!("preferred_batch_size has {size}; allowed are 1 to {max_samples}"),
    };
    let mut preferred =
        dynamic.preferred_batch_size.iter().map(size).collect::<Result<Vec<usize>>>()?;
    preferred.sort_unstable();
    let delay = Duration::from_micros(dynamic.max_queue_delay_microseconds);
    let waiting = dynamic.default_queue_policy.as_ref().map(|policy| policy.max_queue_size);
    Ok(BatchPolicy {
        max_samples,
        joining: Some(Joining { preferred, delay }),
        max_waiting: waiting.filter(|most| *most > 0).map_or(WAITING, |most| most as usize),
    })
}

fn instances(groups: &[ModelInstanceGroup]) -> Result<Vec<Instances>> {
    if groups.is_empty() {
        return Ok(vec![Instances { count: 1, kind: InstanceKind::Auto, gpus: Vec::new() }]);
    }
    let group = |group: &ModelInstanceGroup| {
        let count = match group.count {
            0 => 1,
            count @ 1..=INSTANCES_MOST => count as usize,
            count => {
                bail!("instance_group has a count of {count}; allowed are 1 to {INSTANCES_MOST}")
            }
        };
        let kind = match group.kind() {
            Kind::Auto => InstanceKind::Auto,
            Kind::Gpu => InstanceKind::Gpu,
            Kind::Cpu => InstanceKind::Cpu,
            Kind::Model => bail!("instance_group has KIND_MODEL; use KIND_GPU or KIND_CPU"),
        };
        let gpu = |gpu: &i32| match u32::try_from(*gpu) {
            Ok(gpu) => Ok(gpu),
            Err(_) => bail!("instance_group names GPU {gpu}; their numbers begin with 0"),
        };
        let gpus = group.gpus.iter().map(gpu).collect::<Result<Vec<u32>>>()?;
        if kind == InstanceKind::Cpu && !gpus.is_empty() {
            bail!("instance_group of KIND_CPU names GPUs: {gpus:?}");
        }
        Ok(Instances { count, kind, gpus })
    };
    groups.iter().map(group).collect()
}

/// The versions that are to be served, of those there are.
pub fn wanted_versions(config: &ModelConfig, found: &[u64]) -> Result<Vec<u64>> {
    let policy = config.version_policy.as_ref().and_then(|policy| policy.policy_choice.as_ref());
    let wanted = match policy {
        None => found[found.len() - 1..].to_vec(),
        Some(PolicyChoice::Latest(latest)) => {
            let count = (latest.num_versions.max(1) as usize).min(found.len());
            found[found.len() - count..].to_vec()
        }
        Some(PolicyChoice::All(_)) => found.to_vec(),
        Some(PolicyChoice::Specific(specific)) => {
            let known = |version: &i64| {
                let number = u64::try_from(*version).ok().filter(|it| found.contains(it));
                number.ok_or_else(|| {
                    anyhow::anyhow!("version_policy names version {version}; there are {found:?}")
                })
            };
            specific.versions.iter().map(known).collect::<Result<Vec<u64>>>()?
        }
    };
    if wanted.is_empty() {
        bail!("version_policy names no version; there are {found:?}");
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use terrace_server::kserve::read_model_config;

    use super::*;

    fn config(text: &str) -> ModelConfig {
        read_model_config(text).expect("it is read")
    }

    fn deployed(text: &str) -> Result<Deployment> {
        Deployment::of(&config(text), None)
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let plain = deployed("backend: \"hugectr\"").expect("it is enough");
        assert_eq!(
            plain.batching,
            BatchPolicy { max_samples: 64, joining: None, max_waiting: WAITING }
        );
        let wanted = Instances { count: 1, kind: InstanceKind::Auto, gpus: Vec::new() };
        assert_eq!(plain.instances, [wanted]);
        assert!(!plain.mixed_precision);
    }

    #[test]
    fn batches_and_instances_are_as_the_file_says() {
        let deployed = deployed(
            "max_batch_size: 32 dynamic_batching { preferred_batch_size: [16, 8] \
             max_queue_delay_microseconds: 50 default_queue_policy { max_queue_size: 7 } } \
             instance_group [ { count: 2 kind: KIND_GPU gpus: [0, 1] }, { kind: KIND_CPU } ]",
        );
        let deployed = deployed.expect("it is read");
        let delay = Duration::from_micros(50);
        let joining = Some(Joining { preferred: vec![8, 16], delay });
        assert_eq!(deployed.batching, BatchPolicy { max_samples: 32, joining, max_waiting: 7 });
        let gpu = Instances { count: 2, kind: InstanceKind::Gpu, gpus: vec![0, 1] };
        let cpu = Instances { count: 1, kind: InstanceKind::Cpu, gpus: Vec::new() };
        assert_eq!(deployed.instances, [gpu, cpu]);
    }

    #[test]
    fn what_cannot_be_served_is_refused_by_name() {
        for (text, want) in [
            ("backend: \"onnxruntime\"", "onnxruntime"),
            ("max_batch_size: -1", "max_batch_size is -1"),
            ("sequence_batching { }", "sequence_batching"),
            ("max_batch_size: 4 dynamic_batching { preferred_batch_size: [8] }", "has 8"),
            ("instance_group [ { count: -3 } ]", "count of -3"),
            ("instance_group [ { kind: KIND_CPU gpus: [0] } ]", "KIND_CPU names GPUs"),
        ] {
            let error = deployed(text).err().expect("it is refused").to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
    }

    #[test]
    fn versions_follow_the_policy() {
        let wanted =
            |text: &str| wanted_versions(&config(text), &[1, 3, 7]).expect("there are some");
        assert_eq!(wanted(""), [7]);
        assert_eq!(wanted("version_policy { latest { num_versions: 2 } }"), [3, 7]);
        assert_eq!(wanted("version_policy { latest { num_versions: 9 } }"), [1, 3, 7]);
        assert_eq!(wanted("version_policy { all { } }"), [1, 3, 7]);
        assert_eq!(wanted("version_policy { specific { versions: [3, 1] } }"), [3, 1]);
        let missing = config("version_policy { specific { versions: [2] } }");
        let error = wanted_versions(&missing, &[1]).expect_err("it is not there");
        assert!(error.to_string().contains("version 2"), "{error}");
    }
}
