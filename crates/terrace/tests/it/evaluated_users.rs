//! Made-up users for `terrace rank eval`: as the files that it reads, and as the requests that it
//! should make of them.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use terrace_testkit::{Rng, TinyRanker};

pub const MAX_HISTORY: usize = 12;
pub const CANDIDATES: usize = 4;
/// An item that the tables have not got.
const UNKNOWN_ITEM: i64 = 7;
const DATES: [u32; 2] = [20_220_408, 20_220_409];

pub struct EvaluatedUsers {
    folder: tempfile::TempDir,
    users: Vec<User>,
}

struct User {
    id: usize,
    items: Vec<i64>,
    actions: Vec<i64>,
    context: [usize; 2],
}

/// What became of a command: its standard output, or its standard error where it failed.
pub fn terrace(args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    let output = command.args(args).output().expect("the program starts");
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("plain names")
}

impl EvaluatedUsers {
    /// Ten users with enough items, of whom seven train, and two with too few; and the model as
    /// recsys-examples has it.
    pub fn new(model: &TinyRanker, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut user = |id: usize| {
            let count = if id % 6 == 2 { CANDIDATES } else { 6 + rng.below(20) };
            let mut items: Vec<i64> = (0..count)
                .map(|_| TinyRanker::FIRST_ITEM + rng.below(TinyRanker::ITEMS) as i64)
                .collect();
            if id == 10 {
                items[0] = UNKNOWN_ITEM;
            }
            let actions = (0..count).map(|_| rng.below(TinyRanker::ACTIONS) as i64).collect();
            User { id, items, actions, context: [rng.below(5), rng.below(7)] }
        };
        let users = (1..=12).map(&mut user).collect();
        let evaluated =
            EvaluatedUsers { folder: tempfile::tempdir().expect("a temporary folder"), users };
        let (own, theirs) = (model.path(), evaluated.checkpoint());
        terrace(&["rank", "convert", text(&own), text(&theirs), "--to", "recsys-examples"])
            .expect("it is converted");
        let gin = fs::read_to_string(theirs.join("config.gin")).expect("a gin file");
        let gin = changed(&gin, "num_candidates = 50", &format!("num_candidates = {CANDIDATES}"));
        let gin = changed(&gin, "length = 100", &format!("length = {MAX_HISTORY}"));
        fs::write(evaluated.gin(), gin).expect("writable");
        evaluated.write();
        evaluated
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn checkpoint(&self) -> PathBuf {
        self.path().join("checkpoint")
    }

    pub fn gin(&self) -> PathBuf {
        self.path().join("model.gin")
    }

    /// `terrace rank eval` with a checkpoint.
    pub fn eval_of(&self, checkpoint: &Path, options: &[&str]) -> Result<String, String> {
        let (gin, data) = (self.gin(), self.path());
        let files = ["--gin_config_file", text(&gin), "--dataset_path", text(data)];
        let checkpoint = ["--checkpoint_dir", text(checkpoint)];
        let kv = ["--threads", "1", "--device", "cpu"];
        terrace(&[&["rank", "eval"], &checkpoint[..], &files, &kv, options].concat())
    }

    pub fn eval(&self, options: &[&str]) -> Result<String, String> {
        self.eval_of(&self.checkpoint(), options)
    }

    /// What the users that do not train are asked, as `terrace rank score` takes it, and the
    /// actions with the candidates.
    pub fn wanted_requests(&self) -> Vec<(Value, Vec<i64>)> {
        let longer = self.users.iter().filter(|user| CANDIDATES < user.items.len());
        let requests = longer.skip(7).map(|user| {
            let kept = user.items.len().min(MAX_HISTORY + CANDIDATES);
            let history = kept - CANDIDATES;
            let request = json!({
                "user": user.id.to_string(),
                "context": user.context,
                "items": user.items[..history],
                "actions": user.actions[..history],
                "candidates": user.items[history..kept],
            });
            (request, user.actions[history..kept].to_vec())
        });
        requests.collect()
    }

    /// Tokens of histories as they grow: of all requests, and of the last of each sequence.
    pub fn wanted_tokens(&self) -> [usize; 2] {
        let tokens = |events: usize| 2 + 2 * events.min(MAX_HISTORY);
        let ends: Vec<Vec<usize>> = self.days().map(|(_, _, day)| ends(day.len())).collect();
        let all = ends.iter().flatten().map(|events| tokens(*events)).sum();
        let last = ends.iter().map(|ends| tokens(*ends.last().expect("an interval")));
        [all, last.sum()]
    }

    /// The events of a user on each date.
    fn days(&self) -> impl Iterator<Item = (&User, u32, std::ops::Range<usize>)> {
        self.users.iter().flat_map(|user| {
            let middle = user.items.len() / 3;
            let days = [0..middle, middle..user.items.len()];
            DATES.into_iter().zip(days).map(move |(date, events)| (user, date, events))
        })
    }

    fn write(&self) {
        let mut sequences = "user_id,item,action,age,city\n".to_owned();
        for User { id, items, actions, context: [age, city] } in &self.users {
            writeln!(sequences, "{id},\"{items:?}\",\"{actions:?}\",{age},{city}").expect("text");
        }
        let mut growing = "user_id,date,item,action,age,city\n".to_owned();
        let mut batches = "user_id,date,interval_end_ts,interval_indptr\n".to_owned();
        for (User { id, items, actions, context: [age, city] }, date, events) in self.days() {
            let [items, actions] = [items, actions].map(|list| &list[events.clone()]);
            writeln!(growing, "{id},{date},\"{items:?}\",\"{actions:?}\",{age},{city}")
                .expect("text");
            for end in ends(events.len()) {
                // Users come at times of their own.
                let time = 1000 * end + 37 * id;
                writeln!(batches, "{id},{date},{time},{end}").expect("text");
            }
        }
        for (name, text) in [
            ("processed_seqs.csv", sequences),
            ("processed_seqs_inference.csv", growing),
            ("processed_batches.csv", batches),
        ] {
            fs::write(self.path().join(name), text).expect("writable");
        }
    }
}

/// Intervals of three events; the last has what is left.
fn ends(events: usize) -> Vec<usize> {
    let mut ends: Vec<usize> = (3..events).step_by(3).collect();
    ends.push(events);
    ends
}

/// A text in which something is there, and is replaced.
pub fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from:?} is in {text}");
    text.replace(from, to)
}
