//! `terrace rank convert`: there and back, and what is refused.

use std::fs;
use std::path::Path;
use std::process::Command;

use terrace_testkit::{TinyRanker, golden_set};

/// What it printed on standard error, if it ended with an error.
fn convert(args: &[&Path], options: &[&str]) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    let output = command.args(["rank", "convert"]).args(args).args(options).output();
    let output = output.expect("the program starts");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn folders_go_to_recsys_and_back() {
    let model = TinyRanker::new(31);
    let home = tempfile::tempdir().expect("a folder");
    let [plain, theirs, back] = ["plain", "theirs", "back"].map(|name| home.path().join(name));
    convert(&[&model.path(), &plain], &[]).expect("a copy");
    convert(&[&model.path(), &theirs], &["--to", "recsys-examples", "--layout", "per_head"])
        .expect("theirs");
    assert!(theirs.join("torch_module/model.0.pth").is_file());
    convert(&[&theirs, &back], &["--layout", "blocked"]).expect("back");
    let [plain, back] =
        [plain, back].map(|folder| fs::read(folder.join("model.safetensors")).expect("a file"));
    assert!(plain == back, "bit for bit");
    let left: Vec<_> = fs::read_dir(home.path()).expect("readable").collect();
    assert_eq!(left.len(), 3, "nothing partial is left: {left:?}");
}

#[test]
fn what_cannot_be_converted_leaves_nothing_behind() {
    let home = tempfile::tempdir().expect("a folder");
    let out = home.path().join("out");
    let refused = |input: &Path, options: &[&str], want: &str| {
        let error = convert(&[input, &out], options).expect_err(want);
        assert!(error.contains(want), "{error}");
        assert_eq!(fs::read_dir(home.path()).expect("readable").count(), 0, "{want}");
    };
    let stu = TinyRanker::stu(1);
    refused(&stu.path(), &["--to", "recsys-examples"], "a model of the variant stu");
    refused(&golden_set("torch").join("recsys"), &[], "give the gin file");
    refused(&golden_set("torch"), &[], "none of: a folder with config.json");
    let hostile = golden_set("torch").join("hostile-system.pth");
    let gin = tempfile::NamedTempFile::new().expect("a file");
    fs::write(gin.path(), "train_fn.main_module = 'HSTU'\n").expect("writable");
    let gin = gin.path().to_string_lossy().into_owned();
    refused(&hostile, &["--gin_config_file", &gin], "posix.system, which is not data");
    let error = convert(&[&stu.path(), home.path().parent().expect("a folder")], &[]);
    assert!(error.expect_err("it is there").contains("is there already"));
}
