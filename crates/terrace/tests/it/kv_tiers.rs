//! Servers over real disks and a real Redis Cluster, shared, failing and killed; the checks
//! themselves are in `tools/tests`, and start servers and masters of their own.

use std::path::Path;

use terrace_testkit::TinyModel;

use crate::openai_client::{run, script};
use crate::server_process::small_model;

#[track_caller]
fn check(name: &str, model: &Path) {
    let mut script = script(name);
    script.arg(env!("CARGO_BIN_EXE_terrace")).arg(model);
    run(script);
}

/// A model whose prompts take long enough that what another server computed arrives in time.
#[test]
fn two_servers_share_prefixes_through_a_redis_cluster() {
    check("shared_prefixes.py", &small_model());
}

#[test]
fn outputs_are_right_and_in_time_while_a_redis_cluster_fails() {
    check("redis_faults.py", &TinyModel::new().path());
}

#[test]
fn outputs_are_right_and_in_time_while_a_disk_fails() {
    check("disk_faults.py", &TinyModel::new().path());
}

/// Twenty kills; `make torture` does two hundred.
#[test]
fn servers_killed_under_load_leave_nothing_torn() {
    check("killed_servers.py", &TinyModel::new().path());
}
