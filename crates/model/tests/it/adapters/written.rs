//! Folders that were written here: whole, read back as they were, and what PEFT reads.

use std::path::Path;

use terrace_model::{Adapter, BranchedProduct, LayerProduct, LoraKind};
use terrace_testkit::golden_set;

use super::base;
use super::random_adapter::random_adapter;

const FILES: [&str; 2] = ["adapter_config.json", "adapter_model.safetensors"];

fn written_lora() -> Adapter {
    random_adapter(&base("llama_plain").spec, LoraKind::Default, 3, |product| match product {
        BranchedProduct::Layer(0, LayerProduct::Down) => true,
        BranchedProduct::Layer(_, product) => {
            matches!(product, LayerProduct::Query | LayerProduct::Value)
        }
        BranchedProduct::Head => true,
    })
}

fn written_dora() -> Adapter {
    random_adapter(&base("llama_plain").spec, LoraKind::Dora, 4, |product| {
        product != BranchedProduct::Head
    })
}

/// `tools/golden/adapters.py` took these folders from below the target folder, loaded them with
/// PEFT, and kept them beside what that computed.
#[test]
fn folders_are_those_that_peft_has_loaded() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("adapters");
    for (name, adapter) in [("written_lora", written_lora()), ("written_dora", written_dora())] {
        let folder = target.join(name);
        if folder.exists() {
            std::fs::remove_dir_all(&folder).expect("this test's own");
        }
        adapter.write(&folder).expect("a folder that can be written");
        for file in FILES {
            let read = |folder: &Path| std::fs::read(folder.join(file)).expect("a file");
            let is_same = read(&folder) == read(&golden_set("adapters").join(name));
            assert!(is_same, "{name}/{file} differs: write the golden data again");
        }
    }
}

#[test]
fn what_is_read_back_is_what_was_written() {
    let spec = base("llama_plain").spec;
    let home = tempfile::tempdir().expect("a folder");
    for kind in [LoraKind::Default, LoraKind::RmsNorm, LoraKind::Dora] {
        let adapter = random_adapter(&spec, kind, 5, |_| true);
        let folder = home.path().join("deep").join(kind.name());
        adapter.write(&folder).expect("a folder that can be written");
        let mut names: Vec<_> = std::fs::read_dir(&folder)
            .expect("it is there")
            .map(|entry| entry.expect("readable").file_name())
            .collect();
        names.sort();
        assert_eq!(names, FILES);
        let found = Adapter::open(&folder, &spec).expect("it was written here");
        assert_eq!(found.hash(), adapter.hash(), "{kind:?}");
        assert_eq!((found.kind(), found.products().len()), (kind, 3 * 7 + 1));
        assert_eq!(found.base_model(), Some("llama_plain"));
    }
}

#[test]
fn a_folder_that_is_there_is_left_as_it_is() {
    let home = tempfile::tempdir().expect("a folder");
    std::fs::write(home.path().join("mine"), "1").expect("writable");
    let message = written_lora().write(home.path()).expect_err("it is there").to_string();
    assert!(message.contains("is there already"), "{message}");
    assert_eq!(std::fs::read_dir(home.path()).expect("readable").count(), 1);
}
