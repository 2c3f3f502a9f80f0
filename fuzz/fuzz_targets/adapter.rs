#![no_main]

use libfuzzer_sys::fuzz_target;
use terrace_fuzz_targets::{quiet_foreign_panics, run};

fuzz_target!(
    init: quiet_foreign_panics(),
    |input: &[u8]| {
        run("adapter", input);
    }
);
