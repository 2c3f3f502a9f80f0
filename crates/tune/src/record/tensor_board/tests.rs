//! Events as the package `tensorboard` 2.21 writes them.

use super::event::{EventContent, event};
use super::framed_record::framed;

/// `bytes`: of `RecordWriter.write(Event(wall_time=1.5, step=step, ..).SerializeToString())`.
#[track_caller]
fn check(step: u64, content: &EventContent<'_>, bytes: &str) {
    let written = framed(&event(1.5, step, content));
    let written: String = written.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(written, bytes);
}

#[test]
fn the_first_event_names_the_version() {
    let bytes = "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c";
    check(0, &EventContent::FileVersion, bytes);
}

#[test]
fn a_start_has_its_step() {
    let bytes = "100000000000000095fbfe1809000000000000f83f10ac023a020801713b788a";
    check(300, &EventContent::Start, bytes);
}

#[test]
fn scalars_have_tags_and_values() {
    let bytes = concat!(
        "2a00000000000000ae8d91f509000000000000f83f10072a1d0a110a0a747261696e2f6c6f7373",
        "15cdcccc3d0a080a0161150000807f5edbe17d",
    );
    check(7, &EventContent::Scalars(&[("train/loss", 0.1), ("a", f64::INFINITY)]), bytes);
}
