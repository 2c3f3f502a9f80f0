//! The committed PTX is what the kernels' sources compile to.

use std::path::Path;
use std::process::Command;

#[test]
fn every_kernel_compiles_to_the_committed_ptx() {
    let python = std::env::var_os("TERRACE_TEST_PYTHON")
        .expect("TERRACE_TEST_PYTHON names no Python with NVIDIA's compiler: run `make test`");
    let tool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/ptx.py");
    let output = Command::new(python)
        .arg("-B") // leaves no compiled files in the tree
        .arg(tool)
        .arg("--check")
        .output()
        .expect("TERRACE_TEST_PYTHON starts");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
}
