//! Click-through models against reference results, at every level of the processor.

use terrace_kernels::{Compute, CpuLevel, CpuOptions, Ops};
use terrace_model::golden::ctr::check_folder;
use terrace_testkit::golden_set;

#[test]
fn every_model_is_met_at_every_level() {
    for level in CpuLevel::ALL {
        let options = CpuOptions { threads: 2, level: Some(level), compute: Compute::F32 };
        let Ok(ops) = Ops::cpu(options) else {
            println!("this processor has no {}", level.name());
            continue;
        };
        let sets = check_folder(&golden_set("ctr"), &ops).expect("golden data of ctr models");
        for set in &sets {
            println!("{:<10} {set}", level.name());
        }
        let names: Vec<&str> = sets.iter().map(|set| set.set).collect();
        assert_eq!(names, ["pooled", "logits", "outputs", "by name"]);
        assert!(sets.iter().all(|set| set.passed()), "{} differs", level.name());
    }
}
