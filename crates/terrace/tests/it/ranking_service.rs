//! Recommenders behind a real server, with real disks and a real Redis Cluster; the checks
//! themselves are in `tools/tests`.

use terrace_testkit::TinyRanker;

use crate::openai_client::{run, script};

#[track_caller]
fn check(name: &str) {
    let model = TinyRanker::new(21);
    let mut script = script(name);
    script.arg(env!("CARGO_BIN_EXE_terrace")).arg(model.path());
    run(script);
}

#[test]
fn histories_are_ranked_over_http() {
    check("ranking_service.py");
}

#[test]
fn users_are_kept_and_removed_on_disk_and_in_redis() {
    check("ranking_tiers.py");
}
