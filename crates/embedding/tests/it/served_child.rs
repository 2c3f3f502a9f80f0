//! A server in a process of its own, which can be killed, or have no room on its disk.
//!
//! The child is this test binary, asked for one ignored test. It answers questions over its input
//! and output: `versions` with what a look-up of all keys gives, `errors` with how many updates
//! could not be applied. It checks that every row is whole.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use terrace_embedding::PsConfig;

use crate::served::{config, start, versions};
use crate::served_feed::{own, update_source};

const FOLDER: &str = "TERRACE_SERVED_FOLDER";
const PERSISTENT: &str = "TERRACE_SERVED_PERSISTENT";
const BROKERS: &str = "TERRACE_SERVED_BROKERS";
const NODES: &str = "TERRACE_SERVED_NODES";

pub const KEYS: i64 = 300;

pub fn keys() -> Vec<i64> {
    (0..KEYS).collect()
}

#[derive(Clone, Debug)]
pub struct ChildServer<'a> {
    /// Has the folder `files`.
    pub folder: &'a Path,
    pub persistent: &'a str,
    pub brokers: String,
    /// Of Redis; empty for none.
    pub nodes: String,
}

impl ChildServer<'_> {
    pub fn config(&self) -> PsConfig {
        let volatile = match self.nodes.is_empty() {
            true => Value::Null,
            false => json!({ "type": "redis", "address": self.nodes }),
        };
        let path = self.folder.join("db");
        let levels = json!({
            "volatile_db": volatile,
            "persistent_db": { "type": self.persistent, "path": path },
            "update_source": update_source(&self.brokers),
        });
        let cache = json!({ "gpucache": true, "gpucacheper": 0.3 });
        config(&self.folder.join("files"), &levels, &cache)
    }

    pub fn start(&self) -> RunningChild {
        // What a shell ignores is ignored by what takes its place: a full disk is an error then.
        let mut child = Command::new("sh");
        child.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
        child.arg(std::env::current_exe().expect("this binary"));
        child.args(["--ignored", "--exact", "--nocapture"]);
        child.arg("served_child::child_that_serves");
        child.env(FOLDER, self.folder).env(PERSISTENT, self.persistent);
        child.env(BROKERS, &self.brokers).env(NODES, &self.nodes);
        let mut child =
            child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a child");
        let output = BufReader::new(child.stdout.take().expect("piped")).lines();
        let input = child.stdin.take().expect("piped");
        RunningChild { child, input, output }
    }
}

pub struct RunningChild {
    pub child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl RunningChild {
    pub fn kill(&mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("a child");
    }

    /// When it serves.
    pub fn wait_until_it_serves(&mut self) {
        self.answer("serving");
    }

    /// The versions of all keys, as a look-up gives them.
    pub fn versions(&mut self) -> Vec<Option<u32>> {
        let words = self.ask("versions");
        words.split_whitespace().map(|word| word.parse().ok()).collect()
    }

    /// Updates that could not be applied, and were tried again.
    pub fn errors(&mut self) -> u64 {
        self.ask("errors").trim().parse().expect("a number")
    }

    fn ask(&mut self, question: &str) -> String {
        writeln!(self.input, "{question}").expect("a child");
        self.answer(question)
    }

    fn answer(&mut self, word: &str) -> String {
        let mut lines = (&mut self.output).map(|line| line.expect("its output"));
        let line = lines.find_map(|line| line.strip_prefix(word).map(str::to_owned));
        line.unwrap_or_else(|| panic!("the child ended before it was asked for {word}"))
    }
}

impl Drop for RunningChild {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "it is the child of other tests"]
fn child_that_serves() {
    let [folder, persistent, brokers, nodes] = [FOLDER, PERSISTENT, BROKERS, NODES]
        .map(|name| std::env::var(name).expect("other tests run this one"));
    let child = ChildServer { folder: folder.as_ref(), persistent: &persistent, brokers, nodes };
    let server = start(&child.config());
    println!("\nserving");
    for line in std::io::stdin().lines() {
        match line.expect("its parent").as_str() {
            "versions" => {
                let found = versions(&server, &keys());
                let word = |it: &Option<u32>| it.map_or("none".to_owned(), |it| it.to_string());
                let words: Vec<String> = found.iter().map(word).collect();
                println!("\nversions {}", words.join(" "));
            }
            "errors" => println!("\nerrors {}", own(&server).apply_errors),
            other => panic!("{other:?} is no question"),
        }
    }
}
