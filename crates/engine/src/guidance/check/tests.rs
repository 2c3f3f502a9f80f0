//! Processes that check, with commands that stand in for them.

use std::future::Future;
use std::path::Path;
use std::time::Instant;

use terrace_model::Tokenizer;

use super::super::{Grammar, GrammarRule, GuideMaker};
use super::*;
use crate::error::Error;

fn check(command: &[&str]) -> GrammarCheck {
    let command = command.iter().map(OsString::from).collect();
    GrammarCheck { at_once: 1, place_time: Duration::from_millis(50), ..GrammarCheck::new(command) }
}

fn maker(check: &GrammarCheck) -> GuideMaker {
    GuideMaker::new(&Tokenizer::numbered(4), &[0], 4, Some(check)).expect("it has an end")
}

fn grammar() -> Grammar {
    Grammar { option: "rule", rule: GrammarRule::Regex("( [0-9])*".into()) }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

async fn error_of(maker: &GuideMaker) -> Error {
    maker.checked_guide(&grammar()).await.err().expect("no guide comes of it")
}

/// Writes down its id, and never answers.
fn sleeper(note: &Path) -> GrammarCheck {
    let script = format!("echo $$ > {}; exec sleep 60", note.display());
    check(&["sh", "-c", &script])
}

#[test]
fn a_check_that_nobody_waits_for_ends_its_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let note = folder.path().join("id");
    let maker = maker(&sleeper(&note));
    run(async {
        let grammar = grammar();
        let waiting = maker.checked_guide(&grammar);
        let noted = async {
            while !std::fs::read_to_string(&note).is_ok_and(|id| id.ends_with('\n')) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            _ = waiting => panic!("it sleeps"),
            () = noted => {}
        }
        let id = std::fs::read_to_string(&note).expect("it was just there");
        // A process that has ended has no command line any more.
        let command = format!("/proc/{}/cmdline", id.trim());
        let started = Instant::now();
        while std::fs::read(&command).is_ok_and(|command| !command.is_empty()) {
            assert!(started.elapsed() < Duration::from_secs(20), "{id} still runs");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn who_finds_no_place_in_time_hears_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let maker = maker(&sleeper(&folder.path().join("id")));
    run(async {
        let grammar = grammar();
        tokio::select! {
            biased;
            _ = maker.checked_guide(&grammar) => panic!("it sleeps"),
            error = error_of(&maker) => {
                assert!(matches!(error, Error::NoCompiler { .. }), "{error}");
                let want = "1 others were compiled for 50ms";
                assert!(error.to_string().contains(want), "{error}");
            }
        }
    });
}

#[test]
fn a_process_that_ends_early_refuses_the_grammar() {
    let error = run(error_of(&maker(&check(&["true"]))));
    assert!(matches!(error, Error::BadGrammar { option: "rule", .. }), "{error}");
    let stand_in = "echo 'memory allocation of 9 bytes failed' >&2";
    let error = run(error_of(&maker(&check(&["sh", "-c", stand_in]))));
    assert!(error.to_string().contains("more than 256 MiB of memory, the limit"), "{error}");
    let error = run(error_of(&maker(&check(&["sh", "-c", "kill -XCPU $$"]))));
    assert!(error.to_string().contains("more than 2 s of processor time, the limit"), "{error}");
}

#[test]
fn a_command_that_is_not_there_is_no_fault_of_the_grammar() {
    for command in [&["/no/such/program"][..], &[]] {
        let error = run(error_of(&maker(&check(command))));
        assert!(matches!(error, Error::NoCompiler { .. }), "{error}");
    }
}

#[test]
fn a_grammar_that_is_known_is_not_checked_again() {
    let maker = maker(&check(&["false"]));
    maker.guide(&grammar()).expect("a good grammar");
    run(maker.checked_guide(&grammar())).expect("it is known");
}
