//! `terrace serve` as a child process, for the time of a test.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use serde_json::Value;

pub struct ServerProcess {
    child: Child,
    /// `http://HOST:PORT`
    base: String,
}

impl ServerProcess {
    /// Serves the small model on a free port; returns when it listens.
    pub fn start<A: AsRef<OsStr>>(args: &[A]) -> Self {
        Self::serving(&small_model(), args)
    }

    /// The same with another model.
    pub fn serving<A: AsRef<OsStr>>(model: &Path, args: &[A]) -> Self {
        Self::spawn(model, args, Stdio::inherit())
    }

    /// The small model, with its log and last words going to `errors`.
    pub fn start_saying_to<A: AsRef<OsStr>>(args: &[A], errors: Stdio) -> Self {
        Self::spawn(&small_model(), args, errors)
    }

    fn spawn<A: AsRef<OsStr>>(model: &Path, args: &[A], errors: Stdio) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
            .args(["serve", "--port", "0", "--model"])
            .arg(model)
            // Several tests run at once: none shall take all cores or much memory.
            .args(["--threads", "2", "--kv-memory", "256MiB"])
            .args(args)
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the program starts");
        let mut output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let base = listening_at(&mut output).unwrap_or_else(|| {
            let status = child.wait().expect("it was started here");
            panic!("terrace serve ended before it listened: {status}; its messages are above");
        });
        // What it prints later must not fill the pipe.
        thread::spawn(move || io::copy(&mut output, &mut io::sink()));
        Self { child, base }
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    /// The response to a completion with these fields, which go before those of `body`.
    #[track_caller]
    pub fn complete(&self, mut body: Value, fields: &Value) -> Value {
        body.as_object_mut().expect("an object").extend(fields.as_object().expect("one").clone());
        let url = format!("{}/v1/completions", self.base);
        let output = Command::new("curl")
            .args(["-s", "-H", "Content-Type: application/json", "-d", &body.to_string(), &url])
            .output()
            .expect("there is curl");
        let text = String::from_utf8(output.stdout).expect("responses are UTF-8");
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    pub fn port(&self) -> &str {
        self.base.rsplit(':').next().expect("an address has a port")
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once, without a chance to tidy up.
    #[cfg(target_os = "linux")]
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.wait();
    }

    /// Asks it to stop, as a service manager does.
    pub fn terminate(&self) {
        let kill = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(kill.expect("there is a kill command").success());
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("it was started here")
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended already; both are well then.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listening_at(output: &mut impl BufRead) -> Option<String> {
    let mut lines = output.by_ref().lines();
    lines.find_map(|line| Some(line.ok()?.strip_prefix("listening on ")?.trim().to_owned()))
}

/// Where `make model` puts it.
pub fn small_model() -> PathBuf {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".cache")))
        .expect("HOME or XDG_CACHE_HOME is an absolute path");
    let path = cache.join("terrace/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    assert!(path.is_file(), "{} is missing: run `make model`", path.display());
    path
}
