//! Clients that mean no good, beside others that do; the checks themselves are in `tools/tests`.

use terrace_testkit::TinyModel;

use crate::openai_client::{client, run};
use crate::server_process::ServerProcess;

/// A tiny model: what is tried here is the service, and it is tried thousands of times.
#[test]
fn no_body_breaks_the_server() {
    let model = TinyModel::new();
    let server = ServerProcess::serving(&model.path(), &["--log-level", "warn"]);
    run(client("hostile_requests.py", &server));
}

/// Two minutes; `make torture` runs two hours of it.
#[test]
fn hostile_clients_do_not_disturb_others() {
    let server = ServerProcess::start(&["--log-level", "warn"]);
    run(client("mixed_traffic.py", &server));
}
