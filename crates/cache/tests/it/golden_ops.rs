//! The ops against the original's runs, as `terrace selftest` holds a device to them.

use terrace_cache::golden::check_folder;
use terrace_kernels::{Compute, CpuOptions, Ops};
use terrace_testkit::golden_set;

#[test]
fn golden_runs_through_the_ops() {
    let options = CpuOptions { threads: 2, level: None, compute: Compute::F32 };
    let ops = Ops::cpu(options).expect("the CPU's ops");
    let sets = check_folder(&golden_set("kv"), &ops).expect("golden data");
    assert!(!sets.is_empty(), "no golden set was found");
    for set in &sets {
        println!("{set}");
        assert!(set.passed(), "{set}");
    }
}
