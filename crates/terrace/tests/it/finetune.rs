//! `terrace finetune_long_lora` and its kin from the outside: the document's commands, what they
//! leave behind, and runs that were killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use terrace_testkit::{Rng, TinyModel};

/// A tiny model, data for it, and a folder for what runs leave.
struct World {
    model: TinyModel,
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let world =
            World { model: TinyModel::new(), folder: tempfile::tempdir().expect("a folder") };
        let lines: String = (0..30).map(|i| format!("{}\n", line(i))).collect();
        fs::write(world.notes(), lines).expect("writable");
        world
    }

    fn notes(&self) -> PathBuf {
        self.path("notes.jsonl")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, mode: &str, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.env("XDG_CACHE_HOME", self.folder.path());
        command.arg(mode).arg(self.model.path()).args(arguments.split_whitespace());
        command
    }

    /// Of notes, in 32 bits, with a cache that evicts.
    fn tune(&self, mode: &str, out: &str, arguments: &str) -> Command {
        let (notes, out) = (self.notes(), self.path(out));
        let data = format!("--data JsonLines --data.path {}", notes.display());
        let cache =
            "--kv_cache.name h2o-default --kv_cache.cache_length 24 --kv_cache.chunk_size 8";
        let rest = format!("--precision 32-true --out_dir {} {arguments}", out.display());
        self.command(mode, &format!("{data} {cache} {rest}"))
    }
}

fn line(number: usize) -> String {
    let mut rng = Rng::new(number as u64);
    let count = 3 + rng.below(3);
    let words: Vec<String> = (0..count).map(|_| format!("w{}", rng.below(90))).collect();
    json!({ "prompt": format!("say {}: ", words.join(" ")), "completion": words[0] }).to_string()
}

#[track_caller]
fn done(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn refused(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().expect("it starts");
    let error = String::from_utf8_lossy(&stderr).into_owned();
    assert!(matches!(status.code(), Some(1 | 2)), "{status}: {error}");
    assert!(!error.contains("panicked"), "{error}");
    error
}

/// Columns of a run's log that do not depend on the machine.
fn learnt(out: &Path) -> Vec<String> {
    let text = fs::read_to_string(out.join("metrics.csv")).expect("a log");
    text.lines().map(|line| line.split(',').take(6).collect::<Vec<_>>().join(",")).collect()
}

fn file(folder: &Path, name: &str) -> Vec<u8> {
    let path = folder.join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A few cases as LongBench V2 lays them out, where its data are looked for.
fn write_long_bench(world: &World, cases: usize) {
    let case = |number: usize| {
        json!({
            "_id": format!("{number:024}"),
            "domain": "Notes",
            "sub_domain": "Short",
            "difficulty": "easy",
            "length": "short",
            "question": "Which letter is meant?",
            "choice_A": "the first",
            "choice_B": "the second",
            "choice_C": "the third",
            "choice_D": "the last",
            "answer": (b'A' + number as u8 % 4) as char,
            "context": "abcd".repeat(1 + number % 3),
        })
    };
    let cases: Vec<_> = (0..cases).map(case).collect();
    let folder = world.path("terrace/data/LongBench-v2");
    fs::create_dir_all(&folder).expect("writable");
    fs::write(folder.join("data.json"), json!(cases).to_string()).expect("writable");
}

/// What keys_values' document tells to type after the model, on one device and on eight.
const LONG_BENCH: [&str; 2] = [
    "--data LongBenchV2 --data.max_seq_length 100000 --data.metadata_dir OUT/data --head_model \
     seq_classification_on_logits --precision bf16-true --verbose some --kv_cache.name h2o-default \
     --kv_cache.cache_length 16384 --kv_cache.chunk_size 1024 --train.save_interval 10 \
     --train.micro_batch_size 4 --train.global_batch_size 4 --eval.interval 10",
    "--devices 8 --data LongBenchV2 --data.max_seq_length 100000 --data.metadata_dir OUT/data \
     --head_model seq_classification_on_logits --precision bf16-true --verbose some \
     --kv_cache.name h2o-default --kv_cache.cache_length 16384 --kv_cache.chunk_size 1024 \
     --train.save_interval 10 --train.micro_batch_size 4 --train.global_batch_size 32 \
     --eval.interval 10",
];

#[test]
fn commands_of_the_document_run_as_printed() {
    let world = World::new();
    write_long_bench(&world, 36);
    for (command, steps) in LONG_BENCH.into_iter().zip([40, 5]) {
        let out = world.path(&format!("longcontext_lora_{steps}"));
        let out_dir = out.display().to_string();
        let arguments = format!("--out_dir OUT {command}").replace("OUT", &out_dir);
        let printed = done(&mut world.command("finetune_long_lora", &arguments));
        assert!(printed.contains(&format!("{steps} steps")), "{printed}");
        assert!(printed.contains("validation loss"), "{printed}");
        assert_eq!(learnt(&out).len(), 1 + steps);
        assert!(!file(&out, "final/adapter_model.safetensors").is_empty());
        assert_eq!(out.join("step-00000010").exists(), 10 <= steps);
        let lengths = fs::read_dir(out.join("data")).expect("lengths are kept").count();
        assert_eq!(lengths, 1);
        let report = String::from_utf8(file(&out, "report.html")).expect("text");
        assert!(report.contains("kv-cache.cache-length"), "the report has the settings");
    }
}

#[test]
fn what_is_tuned_is_served() {
    let world = World::new();
    let say = |model: &Path, adapter: Option<&Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.args(["generate", "--token-ids", "--max-new-tokens", "8", "--dtype", "fp32"]);
        command.arg("--model").arg(model).arg("say w1 w2: ");
        command.args(adapter.map(|folder| format!("--adapter={}", folder.display())));
        done(&mut command)
    };
    let base = say(&world.model.path(), None);
    let rate = "--train.epochs 1 --optimizer.learning_rate 0.02 --train.lr_warmup_steps 0";
    done(&mut world.tune("finetune_offload_lora", "lora", &format!("{rate} --device 0")));
    done(&mut world.tune("finetune_offload_full", "full", &format!("{rate} --device 0")));
    let (lora, full) = (world.path("lora/final"), world.path("full/final"));
    assert_ne!(say(&world.model.path(), Some(&lora)), base);
    assert_ne!(say(&full, None), base);
    // On one device the other modes are the same.
    done(&mut world.tune("finetune_long_lora", "long_lora", rate));
    done(&mut world.tune("finetune_long_full", "long_full", rate));
    for (a, b, name) in [
        ("lora", "long_lora", "adapter_model.safetensors"),
        ("full", "long_full", "model.safetensors"),
    ] {
        let [a, b] = [a, b].map(|out| file(&world.path(out).join("final"), name));
        assert!(a == b, "{name} depends on the mode");
    }
}

const KILLED: &str = "--train.epochs 2 --train.save_interval 1 --eval.interval 4 \
                      --train.micro_batch_size 2 --threads 1";

#[test]
fn runs_that_are_killed_go_on_as_if_they_had_not_been() {
    let world = World::new();
    done(&mut world.tune("finetune_long_lora", "whole", KILLED));
    let out = world.path("killed");
    let states = out.join("training_state");
    let mut rng = Rng::new(5);
    let mut kills = 0;
    loop {
        let arguments = format!("{KILLED} --resume auto --verbose none");
        let mut command = world.tune("finetune_long_lora", "killed", &arguments);
        let before = newest(&states);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        // Sooner or later after another state: during a step, or while something is saved.
        while child.try_wait().expect("a child").is_none() && newest(&states) == before {
            std::thread::sleep(Duration::from_millis(1));
        }
        if kills < 8 {
            std::thread::sleep(Duration::from_micros(rng.below(60_000) as u64));
            kills += usize::from(child.try_wait().expect("a child").is_none());
            child.kill().expect("it is ours");
        }
        let output = child.wait_with_output().expect("it ends");
        if output.status.success() {
            break;
        }
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), None, "{error}");
    }
    assert!(3 < kills, "it was killed {kills} times");
    assert_eq!(learnt(&out), learnt(&world.path("whole")));
    for name in ["final/adapter_model.safetensors", "best/adapter_model.safetensors"] {
        assert!(file(&out, name) == file(&world.path("whole"), name), "{name}");
    }
    let left = fs::read_dir(&out).expect("a folder").map(|it| it.expect("an entry").file_name());
    let hidden: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with('.')).collect();
    assert!(hidden.is_empty(), "{hidden:?} were left");
}

fn newest(states: &Path) -> Option<String> {
    let entries = fs::read_dir(states).ok()?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.starts_with("state-")).max()
}

#[test]
fn what_cannot_be_tuned_is_refused_with_the_reason() {
    let world = World::new();
    let refusal =
        |arguments: &str| refused(&mut world.tune("finetune_long_lora", "out", arguments));
    for (arguments, want) in [
        ("--train.global_batch_size 3", "a multiple of train.micro_batch_size, 2"),
        ("--lora.dropout 1", "less than 1"),
        ("--logger_name wandb", "wandb"),
        ("--access_token x", "HF_TOKEN"),
        ("--resume true", "has no state to go on from"),
        ("--grad.layercp_pin_memory True", "no memory has to be pinned"),
        ("--head_model seq_classification", "has no \"label\""),
        ("--optimizer Lion", "Lion"),
    ] {
        let error = refusal(arguments);
        assert!(error.contains(want), "{arguments}: {error}");
    }
    let gone = world.path("out");
    assert!(!gone.join("metrics.csv").exists(), "nothing has begun");

    let mut lines = fs::read_to_string(world.notes()).expect("text");
    lines.insert_str(lines.find('\n').expect("lines") + 1, "{\"prompt\": \n");
    fs::write(world.notes(), lines).expect("writable");
    let error = refusal("");
    assert!(error.contains("line 2") && error.contains("notes.jsonl"), "{error}");
}

#[test]
fn a_dry_run_tells_and_leaves_nothing() {
    let world = World::new();
    let printed = done(&mut world.tune("finetune_long_full", "out", "--dry-run"));
    for part in ["27 cases train, 3 validate", "no second pass", "layers' inputs", "together"] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(!world.path("out").exists());
}

#[test]
fn answers_are_generated_and_counted_in_validation() {
    let world = World::new();
    let asked = "--eval.use_sample_metric true --eval.interval 2 --train.max_steps 2 \
                 --eval.sample_metric_max_generated_tokens 4";
    let printed = done(&mut world.tune("finetune_long_lora", "out", asked));
    assert!(printed.contains("% of answers right"), "{printed}");
    let text = String::from_utf8(file(&world.path("out"), "validation.csv")).expect("text");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let columns = lines.next().expect("a header");
    let metric = columns.iter().position(|name| *name == "metric").expect("a column");
    let shares: Vec<f64> = lines.map(|line| line[metric].parse().expect("a share")).collect();
    assert!(!shares.is_empty() && shares.iter().all(|share| (0.0..=1.0).contains(share)));
    assert!(!world.path("out/sampled").exists(), "what was generated with is left");
    let text = "{\"text\": \"no question and no answer\"}\n".repeat(30);
    fs::write(world.notes(), text).expect("writable");
    let error = refused(&mut world.tune("finetune_long_lora", "text", asked));
    assert!(error.contains("there is no prompt"), "{error}");
}

/// What PyTorch's viewer makes of a recording: bytes that are held at its end, and those that its
/// events leave.
const READ_SNAPSHOT: &str = "
import pickle, sys
snapshot = pickle.load(open(sys.argv[1], 'rb'))
blocks = [block for segment in snapshot['segments'] for block in segment['blocks']]
held = {block['address']: block['size'] for block in blocks}
[trace] = snapshot['device_traces']
sizes = {}
for event in trace:
    assert event['frames'][0]['name'] and event['time_us'] >= 0
    if event['action'] == 'alloc':
        sizes[event['addr']] = event['size']
    elif event['action'] == 'free_completed':
        sizes.pop(event['addr'], None)
assert all(held[address] == size for address, size in sizes.items())
print(len(trace))
";

#[test]
fn recordings_of_memory_are_what_pytorch_draws() {
    let world = World::new();
    let asked = "--train.max_steps 2 --record_gpu_memory_snapshots 100000 \
                 --record_gpu_memory_period 2";
    done(&mut world.tune("finetune_long_lora", "out", asked));
    let folder = world.path("out/gpu_memory_snapshots/iteration1");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    names.sort_unstable();
    let layers = ["layer0", "layer1", "layer2"].map(|layer| format!("snapshot_{layer}.pickle"));
    assert_eq!(names[0], "snapshot_initial.pickle");
    assert_eq!(names[1..], layers);
    assert!(!world.path("out/gpu_memory_snapshots/iteration2").exists());
    let python = std::env::var_os("TERRACE_TEST_PYTHON").expect("set by `make test`");
    for name in names {
        let mut read = Command::new(&python);
        let events = done(read.args(["-c", READ_SNAPSHOT]).arg(folder.join(&name)));
        assert!(20 < events.trim().parse::<usize>().expect("a number"), "{name}: {events}");
    }
}

#[test]
fn states_that_are_damaged_are_named() {
    let world = World::new();
    let short = "--train.max_steps 2 --train.save_interval 1";
    done(&mut world.tune("finetune_long_lora", "out", short));
    let again = refused(&mut world.tune("finetune_long_lora", "out", short));
    assert!(again.contains("has a run already, saved after step 2"), "{again}");
    let other = format!("{short} --lora.r 4 --resume true");
    let other = refused(&mut world.tune("finetune_long_lora", "out", &other));
    assert!(other.contains("lora.r 8, and has 4 now"), "{other}");
    let folder = world.path("out/training_state");
    for state in fs::read_dir(&folder).expect("states") {
        let path = state.expect("an entry").path();
        let mut bytes = fs::read(&path).expect("a state");
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&path, bytes).expect("writable");
    }
    let error =
        refused(&mut world.tune("finetune_long_lora", "out", &format!("{short} --resume true")));
    assert!(error.contains("state-00000002.safetensors"), "{error}");
}

/// The most address space that a run has taken, in KiB.
#[cfg(target_os = "linux")]
fn address_space(command: &mut Command) -> u64 {
    let mut child = command.stdout(Stdio::null()).spawn().expect("it starts");
    let mut most = 0;
    while child.try_wait().expect("a child").is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
        let peak = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        most = most.max(peak.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(child.wait().expect("a child").success());
    most
}

/// In one large cell a run needs some 300 MB more than in small ones.
#[cfg(target_os = "linux")]
#[test]
fn a_pass_that_runs_out_of_memory_is_repeated_in_smaller_parts() {
    let world = World::new();
    let long = json!({ "text": "abc ".repeat(4_000) }).to_string();
    fs::write(world.notes(), format!("{long}\n{long}\n")).expect("writable");
    let base = "--train.max_steps 1 --train.micro_batch_size 2 --threads 1 \
                --data.val_split_fraction 0 --yarn_rope false";
    let parts = |layers: usize, multiplier: usize| {
        format!(
            "{base} --grad.layers_per_cell {layers} --grad.chunks_per_cell_multiplier {multiplier}"
        )
    };
    let small = address_space(&mut world.tune("finetune_long_lora", "small", &parts(1, 8)));
    let limited = |out: &str, more: &str| {
        let large = world.tune("finetune_long_lora", out, &format!("{} {more}", parts(3, 2_000)));
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit -v {}; exec \"$0\" \"$@\"", small + 100_000));
        command.arg(large.get_program()).args(large.get_args());
        command.env("XDG_CACHE_HOME", world.folder.path());
        command
    };
    let printed = done(&mut limited("large", ""));
    assert!(printed.contains("bytes of host memory"), "{printed}");
    assert!(printed.contains("once more, with grad.chunks_per_cell_multiplier"), "{printed}");
    let loss = |out: &str| -> f64 {
        let line = learnt(&world.path(out))[1].clone();
        line.split(',').nth(2).expect("a loss").parse().expect("a number")
    };
    assert!((loss("large") - loss("small")).abs() < 1e-6);
    let error = refused(&mut limited("refused", "--oom_error_recovery false"));
    assert!(error.contains("bytes of host memory"), "{error}");
}
