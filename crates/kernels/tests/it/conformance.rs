//! Every level of this processor gives what the references give.

use terrace_kernels::conformance::Report;
use terrace_kernels::{CpuLevel, CpuOps, CpuOptions, Error, Ops, conformance};

#[track_caller]
fn check(name: &str, report: &Report) {
    let failures: Vec<String> = report
        .failures()
        .map(|case| format!("{} {}: {:.1e}", case.op, case.case, case.error))
        .collect();
    println!("{name}\n{report}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_level_conforms() {
    let seed = 20_260_101;
    for level in CpuLevel::available() {
        for threads in [1, 3] {
            let ops = CpuOps::new(CpuOptions { threads, level: Some(level) }).unwrap();
            let name = format!("{} with {threads} threads, seed {seed}", level.name());
            check(&name, &conformance::run(&ops, seed));
        }
    }
}

#[test]
fn a_step_conforms_on_every_level() {
    let seed = 20_260_102;
    for level in CpuLevel::available() {
        let ops = Ops::cpu(CpuOptions { threads: 2, level: Some(level) }).unwrap();
        check(&format!("{}, seed {seed}", level.name()), &conformance::run_step(&ops, seed));
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
