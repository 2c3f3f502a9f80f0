//! Files of samples in every form, and what is wrong with them.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use terrace_embedding::KeyKind;
use terrace_engine::predict::{RequestShape, Samples, SlotsOfTable};

use super::column_roles::NamedColumns;
use super::open_samples;
use super::sample_builder::SampleBuilder;

/// Two dense features; tables of two slots and of one.
fn shape() -> RequestShape {
    let table = |slots| SlotsOfTable { slots, keys_most: 4 };
    RequestShape {
        dense: 2,
        tables: vec![table(2), table(1)],
        key_kind: KeyKind::I64,
        outputs: 1,
        max_samples: 8,
    }
}

fn builder() -> SampleBuilder {
    SampleBuilder::new(&shape(), &[]).expect("no sizes are right")
}

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    File::create(&path).expect("a file").write_all(text.as_bytes()).expect("it is written");
    path
}

/// All samples of a file, in parts of two.
fn read(path: &Path) -> anyhow::Result<(Samples, Vec<f32>)> {
    let mut builder = builder();
    let mut file = open_samples::open(path, &NamedColumns::default(), &builder)?;
    let (mut samples, mut labels) = (Samples::empty(2), Vec::new());
    loop {
        file.fill(&mut builder, 2)?;
        if builder.len() == 0 {
            let (done, of) = file.progress();
            assert_eq!(done, of, "all of it was read");
            return Ok((samples, labels));
        }
        let part = builder.take();
        samples.extend(&part.samples);
        labels.extend(part.labels);
    }
}

/// The same three samples in every form: (1 | 2, 3 || 7), ( | 4 || ), (5 | || 8, 9).
fn check(samples: &Samples) {
    assert_eq!(samples.count, 3);
    assert_eq!(samples.dense, [0.5, 1.0, 0.0, -2.0, 3.5, 0.25]);
    assert_eq!(samples.tables[0].keys(), [1, 2, 3, 4, 5]);
    assert_eq!(samples.tables[0].offsets(), [0, 1, 3, 3, 4, 5, 5]);
    assert_eq!(samples.tables[1].keys(), [7, 8, 9]);
    assert_eq!(samples.tables[1].offsets(), [0, 1, 1, 3]);
}

#[test]
fn every_form_has_the_same_samples() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = r#"{"dense": [0.5, 1.0], "slots": [1, [2, 3], [7]], "label": 1}

{"DES": [0.0, -2.0], "CATCOLUMN": [4], "ROWINDEX": [0, 0, 1, 0, 0]}
{"dense": [3.5, 0.25], "slots": [[5], [], [8, 9]], "label": 0}
"#;
    let (samples, _) = read(&file(folder.path(), "a.jsonl", lines)).expect("lines");
    check(&samples);
    let table = "label,I1,I2,C1,C2,C3\n1,0.5,1,1,2|3,7\n0,,-2,,4,\n0,3.5,0.25,5,,8|9\n";
    let (samples, labels) = read(&file(folder.path(), "a.csv", table)).expect("a table");
    check(&samples);
    assert_eq!(labels, [1.0, 0.0, 0.0]);
    let tabs = table.replace(',', "\t");
    check(&read(&file(folder.path(), "a.tsv", &tabs)).expect("a table").0);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text, wanted) in [
        ("a.jsonl", "{\"dense\": [1, 2], \"slots\": [1, 2]}\n", "line 1: a sample with 2 dense"),
        ("a.jsonl", "\n{\"slots\": 3}\n", "line 2: "),
        ("a.jsonl", "{\"CATCOLUMN\": [1], \"ROWINDEX\": [0, 1]}\n", "line 1: "),
        ("a.csv", "I1,I2,C1,C2,C3\n1,2,3,4,5\n1,x,3,4,5\n", "line 3: \"x\" in column I2"),
        ("a.csv", "I1,I2,C1,C2,C3\n1,2,3,4|b,5\n", "\"4|b\" in column C2 are no keys"),
        ("a.csv", "I1,C1\n", "2 dense features and 3 slots"),
        ("a.parquet", "PAR1", "it is no Parquet file"),
        ("a.dat", "x", "should end in .csv"),
    ] {
        let error = read(&file(folder.path(), name, text)).expect_err(text);
        let error = format!("{error:#}");
        assert!(error.contains(wanted), "{text:?}: {error}");
    }
}

#[test]
fn keys_that_begin_with_0_in_every_slot_follow_each_other() {
    let mut builder = SampleBuilder::new(&shape(), &[10, 20, 5]).expect("three sizes");
    let slots: [&[i64]; 3] = [&[1], &[0, 19], &[4]];
    builder.push(&[0.0, 0.0], slots.into_iter(), None).expect("a sample");
    let samples = builder.take().samples;
    assert_eq!(samples.tables[0].keys(), [1, 10, 29]);
    assert_eq!(samples.tables[1].keys(), [34]);
    let error = SampleBuilder::new(&shape(), &[1, 2]).err().expect("one is missing");
    assert!(error.to_string().contains("2 sizes; the model has 3 slots"), "{error}");
    assert!(SampleBuilder::new(&shape(), &[1, -2, 3]).is_err());
}
