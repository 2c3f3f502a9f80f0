//! Every level of this processor gives what the references give.

use terrace_kernels::{CpuLevel, CpuOps, CpuOptions, Error, conformance};

#[test]
fn every_level_conforms() {
    let seed = 20_260_101;
    for level in CpuLevel::available() {
        for threads in [1, 3] {
            let ops = CpuOps::new(CpuOptions { threads, level: Some(level) }).unwrap();
            let report = conformance::run(&ops, seed);
            let failures: Vec<String> = report
                .failures()
                .map(|case| format!("{} {}: {:.1e}", case.op, case.case, case.error))
                .collect();
            println!("{} with {threads} threads, seed {seed}\n{report}", level.name());
            assert!(failures.is_empty(), "{}", failures.join("\n"));
        }
    }
}

#[test]
fn a_level_that_is_missing_is_an_error() {
    for level in CpuLevel::ALL {
        let built = CpuOps::new(CpuOptions { threads: 1, level: Some(level) });
        match built {
            Ok(ops) => assert_eq!(ops.level(), level),
            Err(Error::LevelMissing { wanted, best }) => assert!(wanted == level && best < level),
            Err(other) => panic!("{other}"),
        }
    }
}
