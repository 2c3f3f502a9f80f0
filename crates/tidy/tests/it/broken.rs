//! Each rule finds what it forbids, and names the line.

use std::path::PathBuf;

use terrace_tidy::{SourceFile, Tree};

use crate::Rule;

#[track_caller]
fn check(rule: Rule, path: &str, text: &str, want: &[&str]) {
    let mut tree = Tree::default();
    if path.ends_with(".rs") {
        tree.sources.push(SourceFile::new(PathBuf::from(path), text.to_owned()));
    } else {
        tree.manifests.push((PathBuf::from(path), text.to_owned()));
    }
    let found: Vec<String> = rule(&tree).iter().map(|finding| finding.to_string()).collect();
    assert_eq!(found.len(), want.len(), "{found:#?}");
    for (found, want) in found.iter().zip(want) {
        assert!(found.starts_with(want), "found {found:?}, wanted {want:?}");
    }
}

#[test]
fn a_long_function_is_found_at_its_first_line() {
    let long = format!(
        "//! x\nfn short(a: [u8; 2]) {{ \"{{\"; }}\nfn long() {{\n{}}}\n",
        "a;\n".repeat(69)
    );
    check(
        terrace_tidy::function_lines,
        "crates/a/src/b.rs",
        &long,
        &["crates/a/src/b.rs:3: fn long has 71 lines, the limit is 70"],
    );
    let fits = format!("trait T {{ fn a(&self);\nfn b() {{\n{}}} }}", "a;\n".repeat(68));
    check(terrace_tidy::function_lines, "crates/a/src/b.rs", &fits, &[]);
}

#[test]
fn a_long_file_and_a_long_line_are_found() {
    let long = "x\n".repeat(601);
    check(terrace_tidy::file_lines, "a.rs", &long, &["a.rs: 601 lines"]);
    check(terrace_tidy::file_lines, "a.rs", &"x\n".repeat(600), &[]);
    check(terrace_tidy::median_lines, "a.rs", &"x\n".repeat(200), &["crates: the median"]);
    let wide = format!("ok\n{}\n{}\n", "é".repeat(100), "é".repeat(101));
    check(terrace_tidy::line_columns, "a.rs", &wide, &["a.rs:3: 101 columns"]);
}

#[test]
fn unsafe_is_found_outside_its_crates() {
    let text = "//! x\n#![forbid(unsafe_code)]\n// unsafe\nfn f() { unsafe { g() } }";
    let rule = terrace_tidy::unsafe_in_its_cell;
    check(rule, "crates/engine/src/lib.rs", text, &["crates/engine/src/lib.rs:4: unsafe"]);
    check(rule, "crates/device/src/lib.rs", text, &[]);
    check(rule, "crates/engine/src/lib.rs", "//! x", &["crates/engine/src/lib.rs:1: add"]);
}

#[track_caller]
fn check_circles(files: &[(&str, &str)], want: &[&str]) {
    let file = |(path, text): &(&str, &str)| {
        SourceFile::new(PathBuf::from(format!("crates/a/src/{path}")), (*text).to_owned())
    };
    let tree = Tree { sources: files.iter().map(file).collect(), ..Tree::default() };
    let found: Vec<String> =
        terrace_tidy::no_circles(&tree).iter().map(ToString::to_string).collect();
    assert_eq!(found, want);
}

#[test]
fn a_retired_word_is_found_in_names_and_prose() {
    let style = "# Style\n\n| not | say |\n|---|---|\n| `blub`, `blubs` | worker state |\n";
    let document = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
    let text = "//! At the Blub.\nstruct RowBlub;\nfn take_blubs() {}\n// blubber\n";
    let tree = Tree {
        sources: vec![SourceFile::new(PathBuf::from("crates/a/src/b.rs"), text.to_owned())],
        documents: vec![document("STYLE.md", style), document("README.md", "No blubs.")],
        ..Tree::default()
    };
    let found = terrace_tidy::retired_words(&tree);
    let locations: Vec<_> =
        found.iter().map(|it| (it.path.to_str().expect("text"), it.line)).collect();
    let source = "crates/a/src/b.rs";
    assert_eq!(locations, [(source, 1), (source, 2), (source, 3), ("README.md", 1)]);
    assert_eq!(found[0].message, "'blub' is retired; say: worker state");
}

#[test]
fn files_that_import_each_other_are_found() {
    let found = "crates/a/src/b.rs: files import each other in a circle: b imports c::d, \
                 c::d imports e, e imports b";
    let [b, d, e] = ["use crate::c::D;", "use crate::e::{F, G};", "use super::b::{self, B};"];
    let seen_through = ("c/mod.rs", "mod d;\npub use d::D;");
    check_circles(&[("b.rs", b), seen_through, ("c/d.rs", d), ("e.rs", e)], &[found]);
    let in_tests = format!("#[cfg(test)]\nmod tests {{\n{e}\n}}");
    check_circles(&[("b.rs", b), seen_through, ("c/d.rs", d), ("e.rs", &in_tests)], &[]);
    check_circles(&[("b.rs", b), seen_through, ("c/d.rs", "use super::D;")], &[]);
    let own_code = ("c/mod.rs", "mod d;\nuse d::D;\npub struct F;");
    let circle = "crates/a/src/c/d.rs: files import each other in a circle: c::d imports c, \
                  c imports c::d";
    check_circles(&[("c/d.rs", "use super::F;"), own_code], &[circle]);
}

#[test]
fn a_crate_that_points_up_is_found() {
    let rule = terrace_tidy::layers_point_down;
    let up = "[dependencies]\nterrace-device.workspace = true\nterrace-engine.workspace = true";
    check(rule, "crates/model/Cargo.toml", up, &["crates/model/Cargo.toml:3: model must not"]);
    check(rule, "crates/server/Cargo.toml", up, &[]);
    let beside = "[dev-dependencies]\nterrace-cache.workspace = true";
    check(rule, "crates/model/Cargo.toml", beside, &["crates/model/Cargo.toml:2: model must not"]);
    check(rule, "crates/new/Cargo.toml", up, &["crates/new/Cargo.toml: a crate without a height"]);
}

#[test]
fn the_crate_of_tiers_stands_below_the_engine() {
    let rule = terrace_tidy::layers_point_down;
    let pages = "[dependencies]\nterrace-cache.workspace = true\nterrace-device.workspace = true";
    check(rule, "crates/tiers/Cargo.toml", pages, &[]);
    let tiers = "[dependencies]\nterrace-tiers.workspace = true";
    check(rule, "crates/engine/Cargo.toml", tiers, &[]);
    check(rule, "crates/cache/Cargo.toml", tiers, &["crates/cache/Cargo.toml:2: cache must not"]);
    let engine = "[dependencies]\nterrace-engine.workspace = true";
    check(rule, "crates/tiers/Cargo.toml", engine, &["crates/tiers/Cargo.toml:2: tiers must not"]);
}

#[track_caller]
fn check_library(package: &str, known_to: &[&str], found_in: &str) {
    let rule = terrace_tidy::libraries_in_their_crates;
    let text = format!("[dependencies]\n{package} = \"1\"");
    for known in known_to {
        check(rule, &format!("crates/{known}/Cargo.toml"), &text, &[]);
    }
    let path = format!("crates/{found_in}/Cargo.toml");
    check(rule, &path, &text, &[&format!("{path}:2: {package} in {found_in}: ")]);
}

#[test]
fn a_library_in_a_crate_that_may_not_know_it_is_found() {
    check_library("axum", &["server", "terrace"], "engine");
    check_library("tonic", &["server", "terrace"], "tiers");
    check_library("redis", &["tiers", "embedding", "terrace"], "engine");
    check_library("rdkafka", &["embedding"], "tiers");
    check_library("rocksdb", &["rocksdb"], "embedding");
    check_library("object_store", &["embedding", "terrace"], "server");
    check_library("reqwest", &["embedding", "terrace"], "server");
}

#[test]
fn a_library_under_another_name_or_for_one_platform_is_found() {
    let rule = terrace_tidy::libraries_in_their_crates;
    let path = "crates/engine/Cargo.toml";
    let renamed = "[build-dependencies]\nstore = { version = \"1\", package = \"redis\" }";
    check(rule, path, renamed, &["crates/engine/Cargo.toml:2: redis in engine: Redis may"]);
    let platform = "[target.'cfg(unix)'.dependencies]\nhyper = \"1\"";
    check(rule, path, platform, &["crates/engine/Cargo.toml:2: hyper in engine: HTTP"]);
}

#[test]
fn a_clock_or_a_file_in_a_deciding_file_is_found() {
    let rule = terrace_tidy::deciding_files_have_no_effects;
    let text = "//! No tokio here.\nuse std::time::Duration;\nuse std::fs::File;";
    for path in [
        "crates/cache/src/kv/page_pool.rs",
        "crates/cache/src/policy/rule.rs",
        "crates/engine/src/generate/scheduler/rank.rs",
    ] {
        let [clock, file] = ["2: 'std::time'", "3: 'std::fs'"].map(|it| format!("{path}:{it}"));
        check(rule, path, text, &[&clock, &file]);
    }
    check(rule, "crates/engine/src/generate/engine.rs", text, &[]);
}

#[test]
fn a_deciding_file_that_has_moved_is_found() {
    let found = terrace_tidy::deciding_files_exist(&Tree::default());
    let kv = found.iter().find(|it| it.path.ends_with("cache/src/kv"));
    assert!(kv.is_some_and(|it| it.message.starts_with("no source here")), "no finding");
}

#[test]
fn words_are_found() {
    let later = concat!("//! x\n// TO", "DO: more\n");
    check(terrace_tidy::unfinished_work, "a.rs", later, &["a.rs:2: "]);
    let names = "struct Baseline;\npub enum PageManager {}\nfn f() -> impl Iterator";
    check(terrace_tidy::type_names, "a.rs", names, &["a.rs:2: type PageManager"]);
    check(terrace_tidy::module_comments, "a.rs", "use x;", &["a.rs:1: no module comment"]);
    check(terrace_tidy::module_comments, "a.rs", "//! What it is.", &[]);
}

#[test]
fn large_files_are_found() {
    let data = (0..25).map(|n| (PathBuf::from(format!("testdata/{n}")), 1 << 20));
    let film = (PathBuf::from("docs/film"), (2 << 20) + 1);
    let tree = Tree { files: data.chain([film]).collect(), ..Tree::default() };
    let found = |rule: Rule| rule(&tree).iter().map(|f| f.to_string()).collect::<Vec<_>>();
    assert!(found(terrace_tidy::file_bytes)[0].starts_with("docs/film: 2097153 bytes"));
    assert!(found(terrace_tidy::repository_bytes)[0].starts_with("testdata: 26214400 bytes"));
}

/// The README had figures of an older build, and rounded ones, that no bench file had.
#[test]
fn a_number_of_the_readme_that_no_bench_has_is_found() {
    let readme = "About 999 things.\n## Speed\nOn 2 cores of an X200, 0.5-dev:\n\
                  | a | 1,000 | 82% |\n[b](benches/b.md) has 3.\n\
                  | c | 2,000 |\n[d](benches/d.md)\nAlso 7.\n## Other 5";
    let b = "2 cores; 1,000 and 3 at 83%";
    let d = "12,000 and x2,000 and (2,000 to 3)";
    let documents = [("README.md", readme), ("benches/b.md", b), ("benches/d.md", d)];
    let documents = documents.map(|(path, text)| (PathBuf::from(path), text.to_owned())).to_vec();
    let tree = Tree { documents, ..Tree::default() };
    let found = terrace_tidy::readme_numbers_stand_in_benches(&tree);
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "README.md:4: 82% does not stand in benches/b.md; measure it there",
            "README.md:8: numbers without a link to a file of benches/ behind them",
        ]
    );
}

#[test]
fn a_document_that_names_a_lost_file_is_found() {
    let text = "[a](b.md#part) [c](https://x.y) `crates/e/src/f.rs`\n`e/src/f.rs` [l](lost.md)\n\
                `e/src/gone.rs` and `std::time`";
    let files = ["docs/b.md", "crates/e/src/f.rs"].map(|file| (PathBuf::from(file), 1)).to_vec();
    let documents = vec![(PathBuf::from("docs/a.md"), text.to_owned())];
    let tree = Tree { files, documents, ..Tree::default() };
    let found = terrace_tidy::documents_name_real_files(&tree);
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("docs/a.md:2: there is no lost.md"), "{found:?}");
    assert!(found[1].starts_with("docs/a.md:3: there is no e/src/gone.rs"), "{found:?}");
}
