//! Processes that are killed while they change a store of handles: what they have acknowledged is
//! there, whole, and nothing else but the change under way, done or not done.
//!
//! The child is this test binary, asked for one ignored test. Which changes it makes follows from
//! a seed, so that the parent knows them. `TERRACE_KILLS` says how often one is killed,
//! `TERRACE_SEED` when.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use terrace_testkit::Rng;
use terrace_tiers::HandleStore;

use crate::handles::{check_whole, files, folder, manifest, number_of, open, put};

const FOLDER: &str = "TERRACE_KILLED_FOLDER";
const SEED: &str = "TERRACE_KILLED_SEED";
const NAMES: usize = 6;
const PAGES: [u64; 3] = [1, 30, 600];

/// By name: the number of its handle, how many pages it has, and when it expires.
type Model = BTreeMap<String, (u64, u64, Option<u64>)>;

#[derive(Debug)]
enum Change {
    /// A new one, or one in place of another.
    Commit {
        name: String,
        number: u64,
        pages: u64,
    },
    SetExpiry {
        name: String,
        expires: u64,
    },
    Remove {
        name: String,
    },
    Rename {
        name: String,
        to: String,
    },
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// A change that is possible where the model says what there is.
fn next_change(rng: &mut Rng, model: &Model) -> Change {
    let name = format!("n{}", rng.below(NAMES));
    let to = format!("n{}", rng.below(NAMES));
    let (kind, number) = (rng.below(6), rng.number());
    let pages = *rng.pick(&PAGES);
    match (kind, model.contains_key(&name)) {
        (0, true) => Change::Remove { name },
        (1 | 2, true) => Change::SetExpiry { name, expires: number },
        (3, true) if !model.contains_key(&to) => Change::Rename { name, to },
        _ => Change::Commit { name, number, pages },
    }
}

fn apply_to_model(change: &Change, model: &mut Model) {
    match change {
        Change::Commit { name, number, pages } => {
            model.insert(name.clone(), (*number, *pages, None));
        }
        Change::SetExpiry { name, expires } => {
            model.get_mut(name).expect("it is there").2 = Some(*expires);
        }
        Change::Remove { name } => drop(model.remove(name)),
        Change::Rename { name, to } => {
            let handle = model.remove(name).expect("it is there");
            model.insert(to.clone(), handle);
        }
    }
}

fn apply_to_store(change: &Change, store: &HandleStore) {
    let id = |name: &str| store.find(name, Some("me")).expect("it is there").id;
    match change {
        Change::Commit { name, number, pages } => {
            put(store, &manifest(*number, name, *pages)).map(drop)
        }
        Change::SetExpiry { name, expires } => store.set_expiry(id(name), Some(*expires)),
        Change::Remove { name } => store.remove(id(name)),
        Change::Rename { name, to } => store.rename(id(name), to),
    }
    .expect("a disk");
}

fn model_of(store: &HandleStore) -> Model {
    let handles = store.list().into_iter();
    handles
        .map(|info| (info.name, (number_of(info.id), info.pages, info.expires_unix_ms)))
        .collect()
}

/// Says "begun", and "done" after each change.
#[test]
#[ignore = "it is the child of the next test"]
fn child_that_changes_handles_until_it_is_killed() {
    let folder = std::env::var(FOLDER).expect("the next test runs this one");
    let store = open(folder.as_ref());
    let mut rng = Rng::new(number(SEED, 0));
    let mut model = model_of(&store);
    println!("begun");
    loop {
        let change = next_change(&mut rng, &model);
        apply_to_store(&change, &store);
        apply_to_model(&change, &mut model);
        println!("done");
    }
}

fn start_child(folder: &Path, seed: u64) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("this binary"));
    child.args(["--ignored", "--exact", "--nocapture"]);
    child.arg("handles_killed::child_that_changes_handles_until_it_is_killed");
    child.env(FOLDER, folder).env(SEED, seed.to_string());
    child.stdout(Stdio::piped()).spawn().expect("a child")
}

/// Kills the child at a random moment after it has begun. Returns how many changes it acknowledged.
fn run_and_kill(folder: &Path, seed: u64, rng: &mut Rng) -> usize {
    let mut child = start_child(folder, seed);
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let delay = Duration::from_micros(rng.below(150_000) as u64);
    let (mut done, mut is_killed) = (0, false);
    for line in output.lines() {
        match line.expect("its output").as_str() {
            "begun" => {
                std::thread::sleep(delay);
                child.kill().expect("a child");
                is_killed = true;
            }
            "done" => done += 1,
            _ => {}
        }
    }
    assert!(is_killed, "the child ended by itself");
    child.wait().expect("a child");
    done
}

#[test]
fn killed_processes_lose_no_handle_and_leave_none_torn() {
    let mut rng = Rng::new(number("TERRACE_SEED", 18));
    let folder = folder();
    let mut model = Model::new();
    let mut all_done = 0;
    for kill in 0..number("TERRACE_KILLS", 20) {
        let seed = rng.number();
        let done = run_and_kill(folder.path(), seed, &mut rng);
        let mut changes = Rng::new(seed);
        for _ in 0..done {
            apply_to_model(&next_change(&mut changes, &model), &mut model);
        }
        let store = open(folder.path());
        let found = model_of(&store);
        if found != model {
            let change = next_change(&mut changes, &model);
            apply_to_model(&change, &mut model);
            assert_eq!(found, model, "kill {kill} after {done} changes, in {change:?}");
        }
        store.list().iter().for_each(|info| check_whole(&store, info, number_of(info.id)));
        let names = files(folder.path());
        let is_known = |name: &String| name.ends_with(".kv") || name.ends_with(".json");
        assert!(names.iter().all(is_known), "kill {kill}: {names:?}");
        let handles = names.iter().filter(|name| name.ends_with(".kv")).count();
        assert_eq!(handles, found.len(), "kill {kill}: {names:?}");
        all_done += done;
    }
    println!("{all_done} changes were acknowledged");
}
