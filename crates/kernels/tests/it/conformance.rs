//! Every level of this processor gives what the references give.

use terrace_kernels::conformance::{Extent, Report};
use terrace_kernels::{Compute, CpuLevel, CpuOps, CpuOptions, Error, Ops, conformance};

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
        for (threads, compute) in [(1, Compute::F32), (3, Compute::Fast)] {
            let options = CpuOptions { threads, level: Some(level), compute };
            let ops = CpuOps::new(options).unwrap();
            let name = format!("{} with {threads} threads, {compute:?}, seed {seed}", level.name());
            check(&name, &conformance::run(&ops, seed, Extent::Whole));
        }
    }
}

#[test]
fn a_step_conforms_on_every_level() {
    let seed = 20_260_102;
    for level in CpuLevel::available() {
        for compute in [Compute::F32, Compute::Fast] {
            let options = CpuOptions { threads: 2, level: Some(level), compute };
            let report = conformance::run_step(&Ops::cpu(options).unwrap(), seed, Extent::Whole);
            check(&format!("{}, {compute:?}, seed {seed}", level.name()), &report);
        }
    }
}

#[test]
fn hstu_ops_conform_on_every_level() {
    let seed = 20_260_103;
    for level in CpuLevel::available() {
        for compute in [Compute::F32, Compute::Fast] {
            let options = CpuOptions { threads: 2, level: Some(level), compute };
            let report = conformance::run_hstu(&Ops::cpu(options).unwrap(), seed, Extent::Whole);
            check(&format!("{}, {compute:?}, seed {seed}", level.name()), &report);
        }
    }
}

#[test]
fn ctr_ops_conform_on_every_level() {
    let seed = 20_260_104;
    for level in CpuLevel::available() {
        for compute in [Compute::F32, Compute::Fast] {
            let options = CpuOptions { threads: 2, level: Some(level), compute };
            let report = conformance::run_ctr(&Ops::cpu(options).unwrap(), seed, Extent::Whole);
            check(&format!("{}, {compute:?}, seed {seed}", level.name()), &report);
        }
    }
}

#[test]
fn tune_ops_conform_on_every_level() {
    let seed = 20_260_105;
    for level in CpuLevel::available() {
        for (threads, compute) in [(1, Compute::F32), (3, Compute::F32), (3, Compute::Fast)] {
            let options = CpuOptions { threads, level: Some(level), compute };
            let ops = Ops::cpu(options).unwrap();
            let name = format!("{} with {threads} threads, {compute:?}, seed {seed}", level.name());
            check(&name, &conformance::run_tune(&ops, seed, Extent::Whole).unwrap());
        }
    }
}

#[test]
fn a_part_has_few_cases_of_every_op() {
    fn ops_of(report: &Report) -> Vec<&str> {
        let mut ops: Vec<_> = report.cases.iter().map(|case| case.op).collect();
        ops.dedup();
        ops
    }
    let ops = CpuOps::new(CpuOptions { threads: 1, level: None, compute: Compute::F32 }).unwrap();
    let whole = conformance::run(&ops, 1, Extent::Whole);
    let part = conformance::run(&ops, 1, Extent::Quick);
    check("part", &part);
    assert_eq!(ops_of(&part), ops_of(&whole));
    assert!(4 * part.cases.len() < whole.cases.len(), "{} cases", part.cases.len());
}

#[test]
fn a_level_that_is_missing_is_an_error() {
    for level in CpuLevel::ALL {
        let built =
            CpuOps::new(CpuOptions { threads: 1, level: Some(level), compute: Compute::F32 });
        match built {
            Ok(ops) => assert_eq!(ops.level(), level),
            Err(Error::LevelMissing { wanted, best }) => assert!(wanted == level && best < level),
            Err(other) => panic!("{other}"),
        }
    }
}
