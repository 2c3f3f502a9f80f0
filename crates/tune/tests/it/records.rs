//! What a run leaves in its folder, as those who open the files find it.

mod event_reader;

use std::fs;
use std::path::Path;

use event_reader::{Event, EventContent, read_events};
use tempfile::TempDir;
use terrace_tune::record::{
    CsvLog, LogKind, RecordError, Report, RunLog, RunStart, StepRecord, TensorBoardLog,
    ValidationRecord,
};

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn step(step: u64) -> StepRecord {
    StepRecord {
        step,
        epoch: step as f64 / 3.0,
        loss: 3.0 / step as f64,
        learning_rate: 1e-4 * step as f64,
        gradient_norm: 0.1 + step as f64,
        tokens: 1000 + step,
        seconds: 0.7,
        peak_memory_bytes: (1 << 30) + step,
    }
}

fn validation(step: u64) -> ValidationRecord {
    let metric = (step > 0).then(|| step as f64 / 7.0);
    ValidationRecord { step, loss: 4.0 / (step + 1) as f64, metric, cases: 12, seconds: 1.1 }
}

/// Steps 1 to 6, validated before the first and after each second one; `after` are done.
fn run(logs: &mut [Box<dyn RunLog>], after: u64, last: u64) {
    for log in logs {
        if after == 0 {
            log.validation(&validation(0)).expect("it is writable");
        }
        for at in after + 1..=last {
            log.step(&step(at)).expect("it is writable");
            if at % 2 == 0 {
                log.validation(&validation(at)).expect("it is writable");
            }
        }
    }
}

fn csv(folder: &Path, start: RunStart) -> Vec<Box<dyn RunLog>> {
    LogKind::Csv.open(folder, start).expect("it opens")
}

fn refusal<T>(result: Result<T, RecordError>) -> String {
    result.err().expect("it is refused").to_string()
}

#[test]
fn a_csv_line_has_all_digits() {
    let folder = folder();
    let mut logs = csv(&folder.path().join("run"), RunStart::New);
    run(&mut logs, 0, 2);
    let odd = StepRecord { loss: f64::NAN, gradient_norm: f64::INFINITY, ..step(3) };
    logs[0].step(&odd).expect("it is writable");
    // While the log is open.
    let metrics = fs::read_to_string(folder.path().join("run/metrics.csv")).expect("it is there");
    let lines: Vec<&str> = metrics.lines().collect();
    assert_eq!(
        lines[0],
        "step,epoch,loss,learning_rate,gradient_norm,tokens,seconds,peak_memory_bytes"
    );
    assert_eq!(lines[1], "1,0.3333333333333333,3.0,0.0001,1.1,1001,0.7,1073741825");
    assert_eq!(lines[3], "3,1.0,NaN,0.00030000000000000003,inf,1003,0.7,1073741827");
    let validation =
        fs::read_to_string(folder.path().join("run/validation.csv")).expect("it is there");
    let wanted = "step,loss,metric,cases,seconds\n0,4.0,,12,1.1\n\
                  2,1.3333333333333333,0.2857142857142857,12,1.1\n";
    assert_eq!(validation, wanted);
}

/// A process may be killed at any byte behind what it wrote before its checkpoint.
#[test]
fn files_of_a_killed_run_read_as_if_it_had_gone_on() {
    const CHECKPOINT: u64 = 3;
    let whole = folder();
    run(&mut csv(whole.path(), RunStart::New), 0, 6);
    let read = |folder: &Path, file: &str| fs::read(folder.join(file)).expect("it is there");
    let files = ["metrics.csv", "validation.csv"].map(|file| (file, read(whole.path(), file)));
    let at_checkpoint = folder();
    run(&mut csv(at_checkpoint.path(), RunStart::New), 0, CHECKPOINT);
    for (file, wanted) in &files {
        let written = read(at_checkpoint.path(), file).len();
        assert!(written < wanted.len());
        for killed_at in written..=wanted.len() {
            let resumed = folder();
            for (other, bytes) in &files {
                let end = if other == file { killed_at } else { bytes.len() };
                fs::write(resumed.path().join(other), &bytes[..end]).expect("it is writable");
            }
            let start = RunStart::Resumed { step: CHECKPOINT };
            run(&mut csv(resumed.path(), start), CHECKPOINT, 6);
            for (file, wanted) in &files {
                assert!(read(resumed.path(), file) == *wanted, "{file}, killed at {killed_at}");
            }
        }
    }
}

#[test]
fn a_run_can_begin_over() {
    let folder = folder();
    let read = || fs::read_to_string(folder.path().join("metrics.csv")).expect("it is there");
    run(&mut csv(folder.path(), RunStart::New), 0, 4);
    drop(csv(folder.path(), RunStart::Resumed { step: 0 }));
    assert_eq!(read().lines().count(), 1, "only the header is left");
    // A process killed within its first line, and files that are not there.
    fs::write(folder.path().join("metrics.csv"), "step,ep").expect("it is writable");
    fs::remove_file(folder.path().join("validation.csv")).expect("it is there");
    run(&mut csv(folder.path(), RunStart::Resumed { step: 0 }), 0, 1);
    assert!(read().starts_with("step,epoch,loss") && read().lines().count() == 2, "{}", read());
    assert!(folder.path().join("validation.csv").exists());
}

#[test]
fn a_new_run_leaves_an_earlier_one_alone() {
    for kind in LogKind::ALL {
        let folder = folder();
        run(&mut kind.open(folder.path(), RunStart::New).expect("it opens"), 0, 2);
        let before = fs::read(folder.path().join("metrics.csv")).expect("it is there");
        let error = refusal(kind.open(folder.path(), RunStart::New));
        assert!(error.contains("metrics.csv is there already"), "{error}");
        assert_eq!(fs::read(folder.path().join("metrics.csv")).expect("it is there"), before);
    }
    let folder = folder();
    drop(TensorBoardLog::open(folder.path(), RunStart::New).expect("it opens"));
    let error = refusal(TensorBoardLog::open(folder.path(), RunStart::New));
    assert!(error.contains("events.out.tfevents.") && error.contains("resume"), "{error}");
}

#[test]
fn damaged_lines_are_named() {
    const HEADER: &str = "step,loss,metric,cases,seconds\n";
    for (text, parts) in [
        ("step,loss\n", ["line 1", "step,loss,metric,cases,seconds"]),
        (&format!("{HEADER}0,4.0,,12,1.1\n2,x,,12,1.1\n"), ["line 3", "its value 2"]),
        (&format!("{HEADER}0,4.0,12,1.1\n"), ["line 2", "it has 4 values, and the header 5"]),
        (&format!("{HEADER}-1,4.0,,12,1.1\n"), ["line 2", "its value 1"]),
    ] {
        let folder = folder();
        run(&mut csv(folder.path(), RunStart::New), 0, 2);
        let path = folder.path().join("validation.csv");
        fs::write(&path, text).expect("it is writable");
        let resumed = refusal(CsvLog::open(folder.path(), RunStart::Resumed { step: 2 }));
        let drawn = refusal(Report::read(folder.path(), Vec::new()));
        for error in [resumed, drawn] {
            assert!(error.contains("validation.csv"), "{error}");
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
        assert_eq!(fs::read_to_string(&path).expect("it is there"), text, "it is left alone");
    }
}

fn scalars(step: u64, scalars: &[(&str, f64)]) -> Event {
    let scalars = scalars.iter().map(|(tag, value)| ((*tag).to_owned(), *value as f32));
    Event { step, content: EventContent::Scalars(scalars.collect()) }
}

fn of_step(record: &StepRecord) -> Event {
    let tags = [
        ("train/loss", record.loss),
        ("train/learning_rate", record.learning_rate),
        ("train/gradient_norm", record.gradient_norm),
        ("train/tokens_per_second", record.tokens as f64 / record.seconds),
        ("train/peak_memory_bytes", record.peak_memory_bytes as f64),
    ];
    scalars(record.step, &tags)
}

#[test]
fn tensor_board_reads_what_was_written() {
    let folder = folder();
    let open = |start| LogKind::TensorBoard.open(folder.path(), start).expect("it opens");
    run(&mut open(RunStart::New), 0, 3);
    run(&mut open(RunStart::Resumed { step: 2 }), 2, 3);
    let version = || Event { step: 0, content: EventContent::FileVersion("brain.Event:2".into()) };
    let loss_of = |record: ValidationRecord| ("validation/loss", record.loss);
    let first = scalars(0, &[loss_of(validation(0))]);
    let metric = ("validation/metric", 2.0 / 7.0);
    let second = scalars(2, &[loss_of(validation(2)), metric]);
    let new =
        vec![version(), first, of_step(&step(1)), of_step(&step(2)), second, of_step(&step(3))];
    let start = Event { step: 3, content: EventContent::SessionStart };
    let resumed = vec![version(), start, of_step(&step(3))];
    // In the order of names, as TensorBoard reads them.
    assert_eq!(read_events(folder.path()), [new, resumed]);
    assert!(folder.path().join("metrics.csv").exists(), "the report is drawn from it");
}

#[test]
fn a_resumed_event_file_comes_last_whatever_the_clock_says() {
    let folder = folder();
    let later = folder.path().join("events.out.tfevents.5000000000.elsewhere.7");
    fs::write(&later, "").expect("it is writable");
    drop(TensorBoardLog::open(folder.path(), RunStart::Resumed { step: 1 }).expect("it opens"));
    assert_eq!(read_events(folder.path()).iter().map(Vec::len).collect::<Vec<_>>(), [0, 2]);
}

/// What a page would have to load, or run.
const OUTSIDE: [&str; 8] =
    ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link"];

fn report(folder: &Path, settings: &[(&str, &str)]) -> String {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let settings = settings.iter().map(owned).collect();
    let path = Report::read(folder, settings).and_then(|report| report.write());
    fs::read_to_string(path.expect("it is drawn")).expect("it is there")
}

fn titles(html: &str) -> Vec<&str> {
    let captions = html.split("<figcaption>").skip(1);
    captions.map(|rest| rest.split("</figcaption>").next().expect("it ends")).collect()
}

#[test]
fn a_report_has_what_was_run_and_how_it_went() {
    let folder = folder();
    run(&mut csv(folder.path(), RunStart::New), 0, 60);
    let html = report(folder.path(), &[("model", "a<b> & \"c\""), ("kv_cache.name", "h2o")]);
    let row = "<th scope=\"row\">model</th><td>a&lt;b&gt; &amp; &quot;c&quot;</td>";
    assert!(html.contains(row), "{html}");
    assert!(html.contains("<td>h2o</td>") && html.contains("<td>60 (20.00 epochs)</td>"), "{html}");
    let wanted = [
        "Loss",
        "Validation metric",
        "Learning rate",
        "Gradient norm",
        "Throughput, tokens/s",
        "Peak memory, GiB",
    ];
    assert_eq!(titles(&html), wanted);
    for part in ["<title id=", "<desc id=", "</svg>", "aria-labelledby="] {
        assert_eq!(html.matches(part).count(), wanted.len(), "{part}");
    }
    for line in ["\"noisy\"", "\"smoothed\"", "\"validation\""] {
        assert!(html.contains(&format!("<path class={line}")), "{line}");
    }
    assert!(html.contains("prefers-color-scheme: dark") && html.contains("width=device-width"));
    for outside in OUTSIDE {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn what_was_not_recorded_is_not_drawn() {
    let folder = folder();
    let mut logs = csv(folder.path(), RunStart::New);
    let html = report(folder.path(), &[]);
    assert!(titles(&html).is_empty() && html.contains("No step is done yet"), "{html}");
    assert!(!html.contains("<table>"), "{html}");
    for at in 1..=3 {
        logs[0].step(&step(at)).expect("it is writable");
    }
    fs::remove_file(folder.path().join("validation.csv")).expect("it is there");
    let html = report(folder.path(), &[]);
    assert_eq!(titles(&html)[..2], ["Loss", "Learning rate"]);
    let line = "<path class=\"training\"";
    assert!(html.contains(line) && !html.contains("<path class=\"validation\""), "{html}");
}

#[test]
fn a_diverged_run_is_drawn_while_it_goes_on() {
    let folder = folder();
    let mut logs = csv(folder.path(), RunStart::New);
    for at in 1..=50 {
        let loss = if at > 40 { f64::NAN } else { 3.0 };
        let norm = if at > 39 { f64::INFINITY } else { 1.0 };
        let record = StepRecord { loss, gradient_norm: norm, seconds: 0.0, ..step(at) };
        logs[0].step(&record).expect("it is writable");
    }
    let metrics = folder.path().join("metrics.csv");
    let mut text = fs::read_to_string(&metrics).expect("it is there");
    text.push_str("51,17.0,2.");
    fs::write(&metrics, text).expect("it is writable");
    let html = report(folder.path(), &[]);
    assert!(html.contains("; 10 of 50 are not finite"), "{html}");
    let drawn = html.lines().filter(|line| line.contains(" d=\"") || line.contains("<text"));
    let is_broken = |line: &str| line.contains("NaN") || line.contains("inf");
    assert_eq!(drawn.filter(|line| is_broken(line)).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn a_report_replaces_the_last_one_and_leaves_nothing_else() {
    let folder = folder();
    run(&mut csv(folder.path(), RunStart::New), 0, 1);
    let first = report(folder.path(), &[]);
    run(&mut csv(folder.path(), RunStart::Resumed { step: 1 }), 1, 2);
    assert_ne!(report(folder.path(), &[]), first);
    let entries = fs::read_dir(folder.path()).expect("it is there");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("it reads").file_name()).collect();
    names.sort();
    assert_eq!(names, ["metrics.csv", "report.html", "validation.csv"]);
    let elsewhere = folder.path().join("elsewhere");
    let error = refusal(Report::read(&elsewhere, Vec::new()));
    assert!(error.contains("elsewhere/metrics.csv") && error.contains("folder"), "{error}");
}
