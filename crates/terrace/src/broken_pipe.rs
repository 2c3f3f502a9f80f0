//! `terrace ... | head`: when nobody reads the output any more, the program ends without a word.
//!
//! The standard library turns such a write into a panic; other panics are shown as ever.

use std::panic::PanicHookInfo;

/// What a shell reports for a program that SIGPIPE has ended.
const SIGPIPE_STATUS: i32 = 128 + 13;

pub fn end_quietly() {
    let show = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if is_broken_pipe(panic) {
            std::process::exit(SIGPIPE_STATUS);
        }
        show(panic);
    }));
}

fn is_broken_pipe(panic: &PanicHookInfo<'_>) -> bool {
    panic.payload().downcast_ref::<String>().is_some_and(|message| {
        message.starts_with("failed printing to stdout") && message.contains("Broken pipe")
    })
}
