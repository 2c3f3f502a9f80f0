//! Every flag leads to an option that exists, stands in the manual, and is known once.

use std::collections::HashSet;

use clap::CommandFactory;

use super::*;
use crate::cli::Cli;

#[test]
fn every_flag_is_known_once() {
    let mut known = HashSet::new();
    for name in PeerFlag::all().flat_map(|flag| flag.names) {
        assert!(known.insert(name), "{name} stands twice");
        assert!(name.starts_with('-'), "{name}");
    }
}

#[test]
fn flags_lead_to_options_that_exist() {
    let command = Cli::command();
    let exists = |name: &str| {
        let is_named = |arg: &clap::Arg| arg.get_long() == Some(name);
        command.get_subcommands().any(|command| command.get_arguments().any(is_named))
    };
    for flag in PeerFlag::all() {
        let option = flag.needs_option();
        assert!(exists(option), "{:?} becomes --{option}, which nobody takes", flag.names);
    }
    // Options that sentences name.
    for flag in PeerFlag::all() {
        let sentence = match flag.meaning {
            Meaning::Same(_) => continue,
            Meaning::Converted { manual, .. } => manual,
            Meaning::AlwaysSo { why, .. } | Meaning::Refused(why) => why,
        };
        let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.');
        let words = sentence.split(is_end).map(|word| word.trim_end_matches('.'));
        for name in words.filter_map(|word| word.strip_prefix("--")) {
            assert!(exists(name), "{:?} is answered with --{name}, which nobody takes", flag.names);
        }
    }
}

#[test]
fn flags_hide_no_option_of_the_server() {
    let command = Cli::command();
    let serve = command.find_subcommand("serve").expect("there is a server");
    for arg in serve.get_arguments() {
        let long = arg.get_long().map(|name| format!("--{name}"));
        let short = arg.get_short().map(|letter| format!("-{letter}"));
        for name in [long, short].into_iter().flatten() {
            assert!(PeerFlag::find(&name).is_none(), "{name} is an option of ours");
        }
    }
}

#[test]
fn the_manual_has_a_row_for_every_flag_and_no_other() {
    let manual = include_str!("../../../../../docs/configuration.md");
    let (_, section) = manual.split_once("## Flags of vLLM and llama.cpp").expect("the section");
    let section = section.split("\n## ").next().expect("its text");
    let found: Vec<&str> = section.lines().filter(|line| line.starts_with("| `-")).collect();
    let wanted: Vec<String> = PeerFlag::all().map(manual_row).collect();
    let text = wanted.join("\n");
    assert_eq!(found, wanted, "docs/configuration.md must have these rows:\n{text}");
}

fn manual_row(flag: &PeerFlag) -> String {
    let names: Vec<String> = flag.names.iter().map(|name| format!("`{name}`")).collect();
    let here = match flag.meaning {
        Meaning::Same(option) => format!("`--{option}`"),
        Meaning::Converted { manual, .. } => manual.to_owned(),
        Meaning::AlwaysSo { values: [], why } => format!("accepted: {why}"),
        Meaning::AlwaysSo { values, why } => {
            let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
            format!("accepted at {}: {why}", values.join(", "))
        }
        Meaning::Refused(why) => format!("refused: {why}"),
    };
    // Words in angle brackets would be taken for HTML.
    let here = here.replace("<think>", "`<think>`").replace("</think>", "`</think>`");
    format!("| {} | {} | {here} |", names.join(", "), flag.peer.name())
}
