//! Gradients against the original's, at every level of this processor.

use terrace_golden::GoldenFolder;
use terrace_kernels::{Compute, CpuLevel, CpuOptions, Ops};
use terrace_testkit::golden_set;
use terrace_tune::golden::check_folder;

#[test]
fn golden_gradients_through_selective_caches() {
    let folder = GoldenFolder::open(&golden_set("kv")).unwrap();
    for level in CpuLevel::available() {
        let options = CpuOptions { threads: 2, level: Some(level), compute: Compute::F32 };
        let sets = check_folder(&folder, &Ops::cpu(options).unwrap()).unwrap();
        assert!(!sets.is_empty(), "no gradients in the golden data");
        for set in sets {
            println!("{}: {set}", level.name());
            assert!(set.passed(), "{}: {set}", level.name());
        }
    }
}
