//! Tables of a parameter server behind the built program, with real files and a real Redis Cluster;
//! the checks themselves are in `tools/tests`.

use std::path::Path;

use crate::openai_client::{run, script};

#[test]
fn tables_are_looked_up_over_http() {
    let mut script = script("table_service.py");
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/ps");
    script.arg(env!("CARGO_BIN_EXE_terrace")).arg(samples);
    run(script);
}
