//! Where the instances of a model compute.

use anyhow::{Result, bail};
use terrace_device::Device;
use terrace_embedding::ModelTables;
use terrace_engine::predict::InstancePlace;

use super::deployment::{InstanceKind, Instances};

/// One for each instance, and what is otherwise than the configuration says. `devices` are those
/// of the tables, by their numbers; one CPU stands for all.
pub fn instance_places(
    groups: &[Instances],
    tables: &ModelTables,
    devices: &[Device],
) -> Result<(Vec<InstancePlace>, Option<String>)> {
    let (mut places, mut note) = (Vec::new(), None);
    let has_gpus = devices.iter().any(|device| matches!(device, Device::Cuda(_)));
    for Instances { count, kind, gpus } in groups {
        let on_gpu = has_gpus && *kind != InstanceKind::Cpu;
        if *kind == InstanceKind::Gpu && !has_gpus {
            note = Some("no GPU is used here, so instances of KIND_GPU run on the CPU".to_owned());
        }
        let numbers = match gpus.is_empty() {
            true => &tables.devices,
            false => gpus,
        };
        for number in numbers {
            let Some(cache) = tables.devices.iter().position(|device| device == number) else {
                bail!(
                    "instance_group names GPU {number}, and the model's tables are cached on {:?} \
                     (deployed_device_list of ps.json)",
                    tables.devices
                );
            };
            let place = match on_gpu {
                false => InstancePlace { gpu: None, cache: cache.min(devices.len() - 1) },
                true => InstancePlace { gpu: Some(gpu(devices, *number)?), cache },
            };
            places.extend(std::iter::repeat_n(place, *count));
        }
    }
    Ok((places, note))
}

fn gpu(devices: &[Device], number: u32) -> Result<terrace_device::cuda::CudaInfo> {
    match devices.get(number as usize) {
        Some(Device::Cuda(device)) => Ok(device.info().clone()),
        _ => bail!("there is no GPU {number}; there are {}", devices.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use terrace_embedding::{PsConfig, Surroundings};

    use super::*;

    fn tables(devices: &[u32]) -> ModelTables {
        let config = serde_json::json!({"supportlonglong": true, "models": [{
            "model": "m", "sparse_files": ["a"], "deployed_device_list": devices,
            "embedding_vecsize_per_table": [4], "embedding_table_names": ["t"],
            "default_value_for_each_table": [0.0],
            "maxnum_catfeature_query_per_table_per_sample": [1],
        }]});
        let around = Surroundings { folder: Some(Path::new("/")), model_name: None, cores: 1 };
        PsConfig::from_value(&config, &around).expect("it is right").0.models.remove(0)
    }

    fn group(count: usize, kind: InstanceKind, gpus: &[u32]) -> Instances {
        Instances { count, kind, gpus: gpus.to_vec() }
    }

    #[test]
    fn each_device_has_its_instances() {
        let two = [Device::Cpu, Device::Cpu];
        let groups = [group(2, InstanceKind::Auto, &[]), group(1, InstanceKind::Cpu, &[])];
        let (places, note) = instance_places(&groups, &tables(&[0, 1]), &two).expect("places");
        let caches: Vec<usize> = places.iter().map(|place| place.cache).collect();
        assert_eq!((caches, note), (vec![0, 0, 1, 1, 0, 1], None));
        assert!(places.iter().all(|place| place.gpu.is_none()));
    }

    #[test]
    fn gpus_that_are_not_there_are_noted_or_refused() {
        let cpu = [Device::Cpu];
        let groups = [group(1, InstanceKind::Gpu, &[1])];
        let (places, note) = instance_places(&groups, &tables(&[0, 1]), &cpu).expect("places");
        assert_eq!(places.len(), 1);
        assert_eq!(places[0].cache, 0, "one CPU stands for all");
        assert!(note.is_some_and(|note| note.contains("KIND_GPU")));
        let error = instance_places(&groups, &tables(&[0]), &cpu).expect_err("no such device");
        assert!(error.to_string().contains("names GPU 1"), "{error}");
    }
}
