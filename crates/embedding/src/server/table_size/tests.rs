//! What caches, levels and placement take, against their own shapes.

use std::path::Path;

use serde_json::{Value, json};
use terrace_kernels::HotCacheShape;

use super::*;
use crate::config::{ModelPath, Surroundings};
use crate::load::{LoadError, SparseFolder};

const ROWS: u64 = 10_000;
const DIM: usize = 16;

fn size(changes: &Value, budgets: PlaceBudgets) -> TableSize {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [("key", ROWS as usize * 8), ("emb_vector", ROWS as usize * DIM * 4)] {
        std::fs::write(folder.path().join(name), vec![0; bytes]).unwrap();
    }
    let mut value = json!({
        "supportlonglong": true,
        "models": [{
            "model": "m", "sparse_files": [folder.path()], "embedding_table_names": ["t"],
            "deployed_device_list": [0, 3], "gpucacheper": 0.5,
        }],
    });
    for (name, change) in changes.as_object().unwrap() {
        let place = if value.get(name).is_some() || name.ends_with("_db") || name == "placement" {
            &mut value[name]
        } else {
            &mut value["models"][0][name]
        };
        *place = change.clone();
    }
    let around = Surroundings { folder: None, model_name: None, cores: 2 };
    let (config, _) = PsConfig::from_value(&value, &around).unwrap();
    let open = |path: &ModelPath, dim: Option<usize>| -> Result<SparseFolder, LoadError> {
        let ModelPath::Local(path) = path else { panic!("a folder here") };
        SparseFolder::open(Path::new(path), dim)
    };
    let (plans, _) = TablePlan::of_all(&config, None, &open).unwrap();
    TableSize::of_all(&config, &plans, budgets).unwrap().remove(0)
}

const NONE: PlaceBudgets = PlaceBudgets { device: 0, ram: 0 };

#[test]
fn caches_take_what_their_shape_takes_on_each_device() {
    let check = |changes: Value, want: HotCacheShape| {
        let found = size(&changes, NONE);
        assert_eq!(found.row_bytes, ROWS * DIM as u64 * 4);
        assert_eq!(found.caches.iter().map(|it| it.device).collect::<Vec<_>>(), [0, 3]);
        for cache in found.caches {
            assert_eq!(cache.device_bytes, want.device_bytes() as u64, "{changes}");
            assert_eq!(cache.host_bytes, want.host_row_bytes() as u64, "{changes}");
            assert_eq!(cache.rows, want.slots() as u64, "{changes}");
        }
    };
    let rows = ROWS as usize;
    check(json!({}), HotCacheShape::evicting(rows / 2, DIM).unwrap());
    let all = HotCacheShape::resident(rows, DIM, usize::MAX).unwrap();
    check(json!({ "gpucacheper": 1.0 }), all);
    check(json!({ "embedding_cache_type": "static" }), all);
    let half = HotCacheShape::resident(rows, DIM, rows * DIM * 2).unwrap();
    assert!(half.host_row_bytes() > 0);
    check(json!({ "embedding_cache_type": "uvm" }), half);
    assert!(size(&json!({ "gpucache": false }), NONE).caches.is_empty());
}

#[test]
fn a_level_takes_its_share_at_the_start_and_its_margin_at_most() {
    let check = |volatile: Value, at_start: u64, most: u64| {
        let found = size(&json!({ "volatile_db": volatile }), NONE);
        let level = found.ram.or(found.redis).unwrap();
        assert_eq!((level.rows_at_start, level.rows_most), (at_start, most), "{volatile}");
        let least = most * (8 + 4 * DIM as u64);
        assert!(level.bytes_most >= least && level.bytes_most < 3 * least, "{level:?}");
        assert!(level.bytes_at_start <= level.bytes_most);
        assert_eq!(level.bytes_at_start == 0, at_start == 0, "{level:?}");
    };
    for kind in ["hash_map", "redis_cluster"] {
        let level = |margin: u64, rate: f64, is_filled: bool| {
            json!({
                "type": kind, "num_partitions": 2, "num_node_connections": 2,
                "overflow_margin": margin, "initial_cache_rate": rate,
                "initialize_after_startup": is_filled,
            })
        };
        check(level(u64::MAX, 0.5, true), ROWS, ROWS);
        check(level(1_000, 0.5, true), 1_000, 2_000);
        check(level(1_000, 0.5, false), 0, 2_000);
    }
}

#[test]
fn a_table_is_only_where_placement_puts_it() {
    let changes =
        json!({ "placement": "auto", "persistent_db": { "type": "rocksdb", "path": "r" } });
    let check = |device: u64, ram: u64, place: Place, is_resident: bool| {
        let found = size(&changes, PlaceBudgets { device, ram });
        assert_eq!(found.place, Some(place));
        assert_eq!(found.ram.is_some(), place == Place::Ram);
        assert_eq!(found.caches[0].rows >= ROWS, is_resident, "{place:?}");
        let disk = found.persistent.unwrap();
        assert!(disk.bytes_most > ROWS * (8 + 4 * DIM as u64));
    };
    check(1 << 30, 0, Place::Device, true);
    check(0, 1 << 30, Place::Ram, false);
    check(0, 0, Place::Disk, false);
    assert_eq!(size(&json!({}), PlaceBudgets { device: 1 << 30, ram: 0 }).place, None);
}
