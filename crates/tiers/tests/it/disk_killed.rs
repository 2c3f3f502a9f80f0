//! Processes that are killed while they write: nothing torn is served, and nothing that was synced
//! is lost.
//!
//! The child is this test binary, asked for one ignored test. `TERRACE_KILLS` says how often one is
//! killed, `TERRACE_SEED` when.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use terrace_testkit::Rng;
use terrace_tiers::{DiskTier, PageTier};

use crate::disk::{bytes_in, config, folder};
use crate::pages::{get, put};

const FOLDER: &str = "TERRACE_KILLED_FOLDER";
const FIRST_PAGE: &str = "TERRACE_KILLED_FIRST_PAGE";
const FRAMES: u64 = 40;
const BATCH: u64 = 5;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Puts new pages until it is killed. Says "put 5" when pages up to 5 are put, "sync 5" when they
/// are synced.
#[test]
#[ignore = "it is the child of the next test"]
fn child_that_puts_until_it_is_killed() {
    let folder = std::env::var(FOLDER).expect("the next test runs this one");
    let tier = DiskTier::open(config(folder.as_ref(), FRAMES)).expect("a tier");
    let mut page = number(FIRST_PAGE, 0);
    for round in 0.. {
        let pages: Vec<_> = (page..page + BATCH).collect();
        page += BATCH;
        let stored = put(&tier, &pages).expect("a disk");
        assert!(stored.kept.iter().all(|&kept| kept), "{stored:?}");
        println!("put {page}");
        if round % 3 == 2 {
            tier.sync().expect("a disk");
            println!("sync {page}");
        }
    }
}

fn start_child(folder: &str, first_page: u64) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("this binary"));
    child.args(["--ignored", "--exact", "--nocapture"]);
    child.arg("disk_killed::child_that_puts_until_it_is_killed");
    child.env(FOLDER, folder).env(FIRST_PAGE, first_page.to_string());
    child.stdout(Stdio::piped()).spawn().expect("a child")
}

/// Kills the child at a random moment after its first output. Returns the first page that it has
/// not put for certain, and the first that it has not synced.
fn run_and_kill(folder: &str, first_page: u64, rng: &mut Rng) -> (u64, u64) {
    let mut child = start_child(folder, first_page);
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let delay = Duration::from_micros(rng.below(60_000) as u64);
    let (mut put, mut synced) = (first_page, first_page);
    let mut is_killed = false;
    for line in output.lines() {
        let line = line.expect("its output");
        let mut words = line.split(' ');
        let (word, page) = (words.next(), words.next().and_then(|page| page.parse().ok()));
        match (word, page) {
            (Some("put"), Some(page)) => put = page,
            (Some("sync"), Some(page)) => synced = page,
            _ => continue,
        }
        if !is_killed {
            std::thread::sleep(delay);
            child.kill().expect("a child");
            is_killed = true;
        }
    }
    assert!(is_killed, "the child ended by itself");
    child.wait().expect("a child");
    (put, synced)
}

#[test]
fn killed_processes_leave_nothing_torn_and_lose_nothing_synced() {
    let mut rng = Rng::new(number("TERRACE_SEED", 18));
    let folder = folder();
    let path = folder.path().to_str().expect("text");
    let mut first_page = 0;
    for kill in 0..number("TERRACE_KILLS", 20) {
        let (put, synced) = run_and_kill(path, first_page, &mut rng);
        let tier = DiskTier::open(config(folder.path(), FRAMES)).expect("a tier");
        // `get` fails if anything is served that is not exactly what was put.
        let pages: Vec<_> = (0..put + 2 * BATCH).collect();
        let there = get(&tier, &pages).expect("a disk");
        // A batch under way may have taken the place of the oldest.
        let newest = put.saturating_sub(FRAMES - 2 * BATCH).max(first_page)..put;
        for page in newest {
            assert!(there[page as usize], "kill {kill}: page {page} of {put}, {synced} synced");
        }
        let served: BTreeSet<_> = pages.into_iter().filter(|&page| there[page as usize]).collect();
        assert_eq!(tier.usage().records, Some(served.len()), "kill {kill}");
        assert!(bytes_in(folder.path()) <= config(folder.path(), FRAMES).budget_bytes);
        tier.check();
        first_page = put + 2 * BATCH;
    }
}
