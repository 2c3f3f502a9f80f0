//! One process that checks, as its parent sees it. It ends when this is dropped.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::frame::{frame_bytes, framed};
use super::{CHECK_CPU_SECONDS, CHECK_MEMORY_BYTES, GrammarCheck};

/// The signal that ends a process at its limit of processor time.
const SIGXCPU: i32 = 24;
/// What it says before it ends is one line.
const MAX_LAST_WORDS: u64 = 4 << 10;

pub(super) struct CheckProcess {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    knows_texts: bool,
}

impl CheckProcess {
    pub fn start(check: &GrammarCheck) -> io::Result<Self> {
        let [program, arguments @ ..] = check.command.as_slice() else {
            return Err(io::Error::other("the command is empty"));
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().expect("it is piped");
        let output = child.stdout.take().expect("it is piped");
        Ok(CheckProcess { child, input, output, knows_texts: false })
    }

    pub fn if_running(mut self) -> Option<Self> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    /// What it says about a grammar; an error if it does not get that far. `texts`: the vocabulary
    /// as a frame, which comes before the first grammar.
    pub async fn ask(&mut self, texts: &[u8], grammar: &str) -> io::Result<Result<(), String>> {
        if !std::mem::replace(&mut self.knows_texts, true) {
            self.input.write_all(texts).await?;
        }
        self.input.write_all(&framed(grammar.as_bytes())).await?;
        let mut head = [0; 4];
        self.output.read_exact(&mut head).await?;
        let mut answer = vec![0; frame_bytes(head)?];
        self.output.read_exact(&mut answer).await?;
        serde_json::from_slice(&answer).map_err(io::Error::other)
    }

    /// Which limit ended it, once its output has ended.
    pub async fn last_words(mut self) -> io::Result<String> {
        drop(self.input);
        let mut words = String::new();
        if let Some(errors) = self.child.stderr.take() {
            errors.take(MAX_LAST_WORDS).read_to_string(&mut words).await?;
        }
        let status = self.child.wait().await?;
        Ok(limit_reached(status, &words))
    }
}

fn limit_reached(status: ExitStatus, words: &str) -> String {
    if status.signal() == Some(SIGXCPU) {
        return format!(
            "compiling it takes more than {CHECK_CPU_SECONDS} s of processor time, the limit; make \
             it simpler"
        );
    }
    if words.contains("memory allocation") {
        return format!(
            "compiling it takes more than {} MiB of memory, the limit; make it simpler",
            CHECK_MEMORY_BYTES >> 20
        );
    }
    if words.contains("overflowed its stack") {
        return "it is nested too deeply to be compiled".to_owned();
    }
    tracing::error!(%status, words, "the process that checks grammars has ended");
    "its compiler has ended without a result; make it simpler".to_owned()
}
