//! HSTU models against the numbers of their originals, at every level of the processor.

use terrace_kernels::{Compute, CpuLevel, CpuOptions, Ops};
use terrace_model::golden::hstu::check_folder;
use terrace_testkit::golden_set;

#[test]
fn every_set_is_met_at_every_level() {
    for level in CpuLevel::ALL {
        let options = CpuOptions { threads: 2, level: Some(level), compute: Compute::F32 };
        let Ok(ops) = Ops::cpu(options) else {
            println!("this processor has no {}", level.name());
            continue;
        };
        let sets = check_folder(&golden_set("hstu"), &ops).unwrap();
        for set in &sets {
            println!("{:<10} {set}", level.name());
        }
        assert!(sets.iter().all(|set| set.passed()), "{} differs", level.name());
    }
}
