//! What to say beside "unexpected argument": the option that was meant, or nothing.
//!
//! The parser's own guess goes by likeness of letters alone, and proposes `--model` for
//! `--max-model-len`.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command, Error};
use terrace_model::near_names;

use crate::argv::OwnOptions;
use crate::options::PeerFlag;

/// The error with a tip by the rule of `near_names`, if it is about an unknown option of `command`.
pub fn with_own_tip(mut error: Error, command: &Command) -> Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    error.remove(ContextKind::SuggestedArg);
    // The usage shows the option that was guessed.
    let usage = command.clone().render_usage();
    error.insert(ContextKind::Usage, ContextValue::StyledStr(usage));
    // Words that begin with a hyphen make sense among any number of texts, and nowhere else.
    let takes_texts = |arg: &clap::Arg| matches!(arg.get_action(), ArgAction::Append);
    if !command.get_positionals().any(takes_texts) {
        error.remove(ContextKind::Suggested);
    }
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(unknown)) => unknown.clone(),
        _ => return error,
    };
    if let Some(tip) = unknown.strip_prefix("--").and_then(|name| tip(name, command)) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(tip));
    }
    error
}

fn tip(unknown: &str, command: &Command) -> Option<String> {
    let unknown = unknown.split('=').next().unwrap_or(unknown);
    let own = OwnOptions::of(command);
    let peers = PeerFlag::all()
        .filter(|flag| own.long(flag.needs_option()).is_some())
        .flat_map(|flag| flag.names)
        .filter_map(|name| name.strip_prefix("--"));
    let near = near_names(unknown, own.names().chain(peers));
    near.first().map(|name| format!("--{name}"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::argv;
    use crate::settings_file::parse;

    /// What the program says about the arguments.
    fn said(args: &str) -> String {
        let args = args.split(' ').map(OsString::from);
        let error = argv::settle(args).and_then(parse).expect_err("a wrong command line");
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    #[track_caller]
    fn check(args: &str, want: Option<&str>) {
        let text = said(args);
        assert!(text.contains("unexpected argument"), "{text}");
        match want {
            Some(tip) => assert!(text.contains(&format!("similar argument exists: '{tip}'"))),
            None => assert!(!text.contains("tip:"), "{text}"),
        }
    }

    #[test]
    fn a_slip_is_answered_with_the_option_that_was_meant() {
        check("terrace serve --prot 1", Some("--port"));
        check("terrace serve --modle a", Some("--model"));
        check("terrace serve --max-batchsize=2", Some("--max-batch-size"));
        check("terrace serve --max-modle-len 2", Some("--max-model-len"));
        check("terrace chat --temprature 1", Some("--temperature"));
        check("terrace bench llm --thread 1", Some("--threads"));
    }

    #[test]
    fn an_option_of_another_meaning_is_no_tip() {
        for name in
            ["--model-length", "--serve-name", "--max-tokens", "--gpus", "-x", "--worker-use"]
        {
            check(&format!("terrace serve {name} 1"), None);
        }
        // The server's own, which a chat has no use for.
        check("terrace chat --served-model-name a", None);
    }

    #[test]
    fn the_usage_names_no_option_that_was_not_typed() {
        let text = said("terrace serve --max-modle-len 2");
        assert!(text.contains("Usage: terrace serve [OPTIONS] [MODEL]"), "{text}");
    }

    #[test]
    fn a_prompt_may_begin_with_a_hyphen() {
        assert!(said("terrace generate -5").contains("use '-- -5'"));
    }
}
