//! Panics that are caught on purpose.

use std::panic;

/// Keeps quiet about panics inside the `tokenizers` crate, which loading catches and turns into
/// errors: there are many, and each would print a stack or end a fuzzer. One that nobody catches
/// still ends the run.
pub fn quiet_foreign_panics() {
    let loud = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let foreign = info.location().is_some_and(|at| at.file().contains("tokenizers"));
        if !foreign {
            loud(info);
        }
    }));
}
