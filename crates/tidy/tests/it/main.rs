//! This repository keeps its own rules, and each rule can be broken.

mod broken;
mod code_text;

use std::path::Path;

use terrace_tidy::{Finding, Tree};

type Rule = fn(&Tree) -> Vec<Finding>;

#[track_caller]
fn holds_here(rule: Rule) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = Tree::read(&root).expect("the repository can be read");
    assert!(tree.sources.len() > 10, "only {} sources found in {root:?}", tree.sources.len());
    let findings: Vec<String> = rule(&tree).iter().map(Finding::to_string).collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn files_are_short() {
    holds_here(terrace_tidy::file_lines);
}

#[test]
fn most_files_are_very_short() {
    holds_here(terrace_tidy::median_lines);
}

#[test]
fn functions_are_short() {
    holds_here(terrace_tidy::function_lines);
}

#[test]
fn lines_are_short() {
    holds_here(terrace_tidy::line_columns);
}

#[test]
fn unsafe_stands_in_three_crates() {
    holds_here(terrace_tidy::unsafe_in_its_cell);
}

#[test]
fn crates_point_down() {
    holds_here(terrace_tidy::layers_point_down);
}

#[test]
fn files_import_no_circles() {
    holds_here(terrace_tidy::no_circles);
}

#[test]
fn libraries_are_known_to_their_crates_only() {
    holds_here(terrace_tidy::libraries_in_their_crates);
}

#[test]
fn deciding_files_have_no_clock_and_no_io() {
    holds_here(terrace_tidy::deciding_files_have_no_effects);
}

#[test]
fn the_rule_about_deciding_files_names_files_that_exist() {
    holds_here(terrace_tidy::deciding_files_exist);
}

#[test]
fn nothing_is_left_for_later() {
    holds_here(terrace_tidy::unfinished_work);
}

#[test]
fn type_names_mean_something() {
    holds_here(terrace_tidy::type_names);
}

#[test]
fn retired_words_do_not_come_back() {
    holds_here(terrace_tidy::retired_words);
}

#[test]
fn every_file_says_what_it_is() {
    holds_here(terrace_tidy::module_comments);
}

#[test]
fn documents_name_files_that_exist() {
    holds_here(terrace_tidy::documents_name_real_files);
}

#[test]
fn numbers_of_the_readme_were_measured() {
    holds_here(terrace_tidy::readme_numbers_stand_in_benches);
}

#[test]
fn no_file_is_large() {
    holds_here(terrace_tidy::file_bytes);
}

#[test]
fn the_repository_is_small() {
    holds_here(terrace_tidy::repository_bytes);
}
