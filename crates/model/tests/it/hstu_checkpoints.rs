//! Checkpoints of the originals: what is read of them, what is written, and there and back again
//! bit for bit.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use terrace_golden::{GoldenFolder, GoldenTensors};
use terrace_model::Weights;
use terrace_model::hstu::checkpoints::{GenerativeArgs, HstuCheckpoint};
use terrace_model::hstu::recsys_args::{RecsysArgs, UnknownKeys};
use terrace_model::hstu::{HstuFiles, UvqkOrder};
use terrace_model::torch_file::{TorchDtype, TorchFile, TorchItem, TorchItemTensor};
use terrace_testkit::{SafetensorsFile, TinyRanker, golden_set};

const DYNAMIC: &str =
    "dynamicemb_module/model._embedding_collection._model_parallel_embedding_collection";
const DENSE: &str = "torch_module/model.0.pth";

fn golden(name: &str) -> (Value, GoldenTensors) {
    let folder = GoldenFolder::open(&golden_set("hstu")).expect("golden data");
    let listed = folder.entries().find(|(name, _)| *name == "cases").expect("cases").1.clone();
    let cases = listed.as_array().expect("a list");
    let case = cases.iter().find(|case| case["name"] == name).expect("the case");
    let file = case["file"].as_str().expect("a file");
    (case["params"].clone(), folder.tensors(file).expect("tensors"))
}

/// The golden ranking model as our folder.
fn golden_ranking() -> TempDir {
    let (params, tensors) = golden("ranking_nv");
    let folder = tempfile::tempdir().expect("a folder");
    let config = json!({
        "model_type": "hstu", "task": "ranking", "variant": "nvidia", "num_layers": 2,
        "hidden_size": 32, "num_attention_heads": 2, "head_dim": 16,
        "scaling_seqlen": params["scaling_seqlen"], "max_history_tokens": 60,
        "max_candidates": 8, "contextual_features": ["ctx0", "ctx1"], "item_feature": "item",
        "action_feature": "action", "norm_eps": params["eps"], "num_tasks": 8,
    });
    let mut file = SafetensorsFile::default();
    let mut copy = |to: &str, from: &str| {
        let numbers = tensors.f32s(from).expect("numbers");
        file.numbers(to, tensors.shape(from).expect("a shape"), numbers);
    };
    for name in ["ctx0", "ctx1", "item", "action"] {
        copy(&format!("embeddings.{name}.weight"), &format!("emb.{name}"));
    }
    copy("positions.weight", "pos_emb");
    for at in 0..2 {
        for (to, from) in [
            ("input_norm.weight", "input_norm_weight"),
            ("input_norm.bias", "input_norm_bias"),
            ("uvqk.weight", "uvqk_weight"),
            ("uvqk.bias", "uvqk_bias"),
            ("output_norm.weight", "output_norm_weight"),
            ("output_norm.bias", "output_norm_bias"),
            ("output.weight", "proj_weight"),
        ] {
            copy(&format!("layers.{at}.{to}"), &format!("layer{at}.{from}"));
        }
        copy(&format!("head.{at}.weight"), &format!("head{at}.weight"));
        copy(&format!("head.{at}.bias"), &format!("head{at}.bias"));
    }
    fs::write(folder.path().join("config.json"), config.to_string()).expect("writable");
    fs::write(folder.path().join("model.safetensors"), file.bytes()).expect("writable");
    folder
}

fn ours(folder: &Path) -> HstuCheckpoint {
    HstuCheckpoint::of_files(&HstuFiles::open(folder).expect("our folder"))
}

fn args(gin: &Path) -> RecsysArgs {
    let (args, _) = RecsysArgs::open(gin, UnknownKeys::Refuse).expect("a good gin file");
    args
}

fn to_recsys(checkpoint: &HstuCheckpoint) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut bytes = 0;
    checkpoint.write_recsys(folder.path(), None, &mut |more| bytes += more).expect("it is written");
    assert!(bytes as u64 >= checkpoint.bytes(), "{bytes}");
    folder
}

fn from_recsys(folder: &Path) -> HstuCheckpoint {
    let args = args(&folder.join("config.gin"));
    HstuCheckpoint::from_recsys(&args, folder).expect("it is read")
}

/// The bytes of our folder that a checkpoint becomes.
fn safetensors(checkpoint: &HstuCheckpoint) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    checkpoint.write_terrace(folder.path(), &mut |_| {}).expect("it is written");
    fs::read(folder.path().join("model.safetensors")).expect("a file")
}

#[test]
fn models_go_to_recsys_and_back_bit_for_bit() {
    let golden = golden_ranking();
    let (ranker, retriever) = (TinyRanker::new(3), TinyRanker::retrieval(4));
    let [narrow, _] = TinyRanker::with_mlps(5);
    for folder in [golden.path().into(), ranker.path(), retriever.path(), narrow.path()] {
        let want = safetensors(&ours(&folder));
        for layout in [UvqkOrder::Blocked, UvqkOrder::PerHead] {
            let written = to_recsys(&ours(&folder).with_layout(layout).expect("reordered"));
            let read = from_recsys(written.path());
            assert_eq!(read.config.uvqk_layout, layout);
            let back = read.with_layout(UvqkOrder::Blocked).expect("reordered");
            assert_eq!(back.config.layer_spec(), ours(&folder).config.layer_spec());
            assert!(safetensors(&back) == want, "{layout:?} of {}", folder.display());
        }
    }
}

#[test]
fn a_checkpoint_that_pytorch_wrote_is_the_golden_model() {
    let folder = golden_set("torch").join("recsys");
    let golden = golden_ranking();
    // The same model, described as our own writer does.
    let described = to_recsys(&ours(golden.path()));
    let text = fs::read_to_string(described.path().join("config.gin")).expect("a gin file");
    let dynamic = text
        .replace("table2/EmbeddingArgs", "table2/DynamicEmbeddingArgs")
        .replace("table2/DynamicEmbeddingArgs.sharding_type = 'data_parallel'\n", "");
    let gin = described.path().join("dynamic.gin");
    fs::write(&gin, dynamic).expect("writable");
    let read = HstuCheckpoint::from_recsys(&args(&gin), &folder).expect("it is read");
    let files = read.into_files("golden".into()).expect("it opens");
    let want = HstuFiles::open(golden.path()).expect("our folder");
    let tables = files.tables().expect("tables");
    for (table, want) in tables.iter().zip(want.tables().expect("tables")) {
        assert_eq!((&table.name, table.rows.rows()), (&want.name, want.rows.rows()));
        for row in 0..table.rows.rows() {
            let key = table.keys.as_ref().map_or(row, |keys| keys[row] as usize);
            assert!(table.rows.row(row) == want.rows.row(key), "row {row} of {}", table.name);
        }
    }
    let items = tables.iter().find(|table| table.name == "item").expect("items");
    let keys = items.keys.as_ref().expect("keys of two ranks");
    assert_eq!(keys[..3], [0, 2, 4], "rank 0 first");
    let read = HstuCheckpoint::from_recsys(&args(&gin), &folder).expect("it is read");
    let converted = tempfile::tempdir().expect("a folder");
    read.write_terrace(converted.path(), &mut |_| {}).expect("it is written");
    let [read, want] = [converted.path(), golden.path()]
        .map(|folder| Weights::open_safetensors(folder).expect("our folder"));
    for name in want.names().filter(|name| !name.starts_with("embeddings.")) {
        assert_eq!(read.info(name), want.info(name), "{name}");
        match (read.matrix(name), want.matrix(name)) {
            (Ok(read), Ok(want)) => {
                assert!((0..want.rows()).all(|row| read.row(row) == want.row(row)), "{name}");
            }
            _ => assert_eq!(read.vector(name).ok(), want.vector(name).ok(), "{name}"),
        }
    }
}

#[test]
fn what_is_opened_and_what_is_converted_are_one_model() {
    let ranker = TinyRanker::new(9);
    let written = to_recsys(&ours(&ranker.path()));
    let args = args(&written.path().join("config.gin"));
    let opened = HstuFiles::open_recsys(&args, written.path()).expect("it opens");
    let converted = tempfile::tempdir().expect("a folder");
    let checkpoint = HstuCheckpoint::from_recsys(&args, written.path()).expect("it is read");
    checkpoint.write_terrace(converted.path(), &mut |_| {}).expect("it is written");
    let converted = HstuFiles::open(converted.path()).expect("it opens");
    assert_eq!(opened.config, converted.config);
    let [one, other] = [&opened, &converted].map(|files| files.fingerprint().expect("weights"));
    assert!(one.as_bytes() == other.as_bytes(), "all but tables is the same");
}

/// A state dict of a file of ours: names, shapes and bytes.
fn state(path: &Path) -> Vec<(String, Vec<usize>, Vec<u8>)> {
    let file = TorchFile::open(path).expect("a file of PyTorch");
    let state = file.state_dict().expect("a state dict").tensors();
    let tensors = state.into_iter().map(|(name, tensor)| {
        let bytes = file.bytes_in_place(tensor).expect("row by row").to_vec();
        (name, tensor.shape().to_vec(), bytes)
    });
    tensors.collect()
}

fn write_state(path: &Path, tensors: &[(String, Vec<usize>, Vec<u8>)]) {
    let item = |(name, shape, bytes): &'_ (String, Vec<usize>, Vec<u8>)| {
        (name.clone(), shape.clone(), bytes.clone())
    };
    let owned: Vec<_> = tensors.iter().map(item).collect();
    let entries = owned.iter().map(|(name, shape, bytes)| {
        let tensor =
            TorchItemTensor { dtype: TorchDtype::F32, shape: shape.clone(), parts: vec![bytes] };
        (name.clone(), TorchItem::Tensor(tensor))
    });
    let state = TorchItem::OrderedDict(entries.collect());
    let saved = TorchItem::Dict(vec![("model_state_dict".to_owned(), state)]);
    saved.write(path, |_| {}).expect("it is written");
}

/// Columns of a matrix of f32.
fn columns(shape: &[usize], bytes: &[u8], from: usize, count: usize) -> Vec<u8> {
    let rows = bytes.chunks_exact(shape[1] * 4);
    rows.flat_map(|row| row[from * 4..(from + count) * 4].to_vec()).collect()
}

#[test]
fn layers_that_two_gpus_shared_are_put_together() {
    let ranker = TinyRanker::new(6);
    let whole = ours(&ranker.path()).with_layout(UvqkOrder::PerHead).expect("reordered");
    let want = safetensors(&whole);
    let folder = to_recsys(&whole);
    let tensors = state(&folder.path().join(DENSE));
    for rank in 0..2 {
        let own = tensors.iter().map(|(name, shape, bytes)| {
            let (mut shape, mut own) = (shape.clone(), bytes.clone());
            if name.contains("_linear_uvqk.") {
                shape[0] /= 2;
                own = bytes[rank * bytes.len() / 2..][..bytes.len() / 2].to_vec();
            } else if name.contains("_linear_proj.") {
                let half = shape[1] / 2;
                own = columns(&shape, bytes, rank * half, half);
                shape[1] = half;
            }
            (name.clone(), shape, own)
        });
        let path = folder.path().join(format!("torch_module/model.{rank}.pth"));
        write_state(&path, &own.collect::<Vec<_>>());
    }
    let gin = folder.path().join("config.gin");
    let mut text = fs::read_to_string(&gin).expect("a gin file");
    text.push_str("TensorModelParallelArgs.tensor_model_parallel_size = 2\n");
    fs::write(&gin, text).expect("writable");
    assert!(safetensors(&from_recsys(folder.path())) == want);
}

#[test]
fn gin_files_name_tables_and_must_fit_the_model() {
    let ranker = TinyRanker::new(7);
    let first = to_recsys(&ours(&ranker.path()));
    let text = fs::read_to_string(first.path().join("config.gin")).expect("a gin file");
    let gin = first.path().join("own.gin");
    let write = |from: &str, to: &str| {
        let changed = text.replace(from, to);
        assert_ne!(changed, text, "{from}");
        fs::write(&gin, changed).expect("writable");
        let folder = tempfile::tempdir().expect("a folder");
        let written =
            ours(&ranker.path()).write_recsys(folder.path(), Some(&args(&gin)), &mut |_| {});
        written.map(|()| folder)
    };
    let renamed = write("table_name = 'city'", "table_name = 'towns'").expect("another name");
    let names = state(&renamed.path().join(DENSE));
    assert!(names.iter().any(|(name, ..)| name.ends_with("age/towns/action_weights")), "{names:?}");
    let refused = |from: &str, to: &str, want: &str| {
        let message = write(from, to).expect_err(to).to_string();
        assert!(message.contains(want), "{message}");
    };
    refused("num_layers = 2", "num_layers = 3", "num_layers is 2, the gin file's 3");
    refused("scaling_seqlen = 250", "scaling_seqlen = 251", "scaling_seqlen is 250");
    refused(
        "item_vocab_size_or_capacity = 7",
        "item_vocab_size_or_capacity = 8",
        "7 rows of \"city\"",
    );
}

#[test]
fn what_recsys_has_no_form_for_is_refused_by_name() {
    let stu = TinyRanker::stu(1);
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |checkpoint: HstuCheckpoint, want: &str| {
        let written = checkpoint.write_recsys(folder.path(), None, &mut |_| {});
        let message = written.expect_err(want).to_string();
        assert!(message.contains(want), "{message}");
    };
    refused(ours(&stu.path()), "no form for a model of the variant stu");
    let changed = |change: &dyn Fn(&mut HstuCheckpoint)| {
        let mut checkpoint = ours(&TinyRanker::new(1).path());
        change(&mut checkpoint);
        checkpoint
    };
    refused(changed(&|it| it.config.embedding_scale = Some(1.0)), "no form for embedding_scale 1");
    refused(changed(&|it| it.config.max_history_tokens = 201), "there is half an item");
    refused(
        changed(&|it| it.config.action_feature = None),
        "the tensor \"embeddings.action.weight\"",
    );
    let written = ours(&stu.path()).write_generative(folder.path(), &mut |_| {});
    let message = written.expect_err("another variant").to_string();
    assert!(message.contains("no form for a model of the variant stu"), "{message}");
}

/// A recsys folder that a change has damaged, and what is said of it.
fn damaged(change: impl FnOnce(&Path), want: &[&str]) {
    let folder = to_recsys(&ours(&TinyRanker::new(8).path()));
    change(folder.path());
    let args = args(&folder.path().join("config.gin"));
    let message = HstuFiles::open_recsys(&args, folder.path()).err().expect("damaged").to_string();
    for part in want {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

fn cut(path: PathBuf, bytes: usize) {
    let content = fs::read(&path).expect("a file");
    fs::write(path, &content[..content.len() - bytes]).expect("writable");
}

#[test]
fn damaged_folders_are_refused_with_file_and_tensor() {
    let keys = format!("{DYNAMIC}/item_emb_keys.rank_0.world_size_1");
    let values = format!("{DYNAMIC}/item_emb_values.rank_0.world_size_1");
    damaged(|folder| fs::remove_file(folder.join(DENSE)).expect("there"), &["model.0.pth"]);
    damaged(|folder| cut(folder.join(DENSE), 1000), &["model.0.pth is not a file Terrace can use"]);
    damaged(|folder| cut(folder.join(&keys), 3), &["item_emb_keys", "are no list of keys"]);
    damaged(|folder| cut(folder.join(&values), 4), &["item_emb_values", "60 rows of 32 float32"]);
    damaged(|folder| fs::remove_file(folder.join(&values)).expect("there"), &["item_emb_values"]);
    let missing = "there is no table \"item\" of the feature \"item\"";
    damaged(
        |folder| fs::remove_dir_all(folder.join("dynamicemb_module")).expect("there"),
        &[missing],
    );
    let renamed = |folder: &Path| {
        for file in [&keys, &values] {
            let to = file.replace("rank_0.world_size_1", "rank_1.world_size_2");
            fs::rename(folder.join(file), folder.join(to)).expect("there");
        }
    };
    damaged(renamed, &["item_emb_keys", "the file of rank 0 of 2 is missing"]);
    let two_dumps = |folder: &Path| {
        let to = keys.replace("world_size_1", "world_size_2");
        fs::copy(folder.join(&keys), folder.join(to)).expect("there");
    };
    damaged(two_dumps, &["these are two dumps"]);
    let without = |part: &'static str| {
        move |folder: &Path| {
            let mut tensors = state(&folder.join(DENSE));
            tensors.retain(|(name, ..)| !name.contains(part));
            write_state(&folder.join(DENSE), &tensors);
        }
    };
    damaged(without("layers.1._linear_proj"), &["model.0.pth", "layers.1._linear_proj_weight\""]);
    damaged(without("layers.0._linear_uvqk_w"), &["it has no layer of recsys-examples"]);
    damaged(without("_mlp._mlp.2"), &["layers of [24] outputs", "prediction_head_arch is [24, 3]"]);
    let with_more = |folder: &Path| {
        let mut tensors = state(&folder.join(DENSE));
        tensors.push(("_hstu_block._attention_layers.2.x".to_owned(), vec![1], vec![0; 4]));
        write_state(&folder.join(DENSE), &tensors);
    };
    damaged(with_more, &["no place for: _hstu_block._attention_layers.2.x"]);
    let longer = |folder: &Path| {
        let mut tensors = state(&folder.join(DENSE));
        let (_, shape, bytes) =
            tensors.iter_mut().find(|(name, ..)| name.ends_with("_weights")).expect("tables");
        shape[0] += 1;
        bytes.extend([0; 4]);
        write_state(&folder.join(DENSE), &tensors);
    };
    damaged(longer, &["age/city/action_weights", "its tables have"]);
}

const SEQUENTIAL: &str = "
train_fn.main_module = 'HSTU'
train_fn.max_sequence_length = 9
train_fn.item_embedding_dim = 16
train_fn.item_l2_norm = True
train_fn.learning_rate = 1e-3
HSTU.attn_impl = 'auto'
hstu_encoder.num_blocks = 1
hstu_encoder.num_heads = 2
hstu_encoder.dqk = 8
hstu_encoder.dv = 8
hstu_encoder.concat_ua = True
";

fn generative_args(text: &str) -> Result<GenerativeArgs, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("hstu.gin");
    fs::write(&path, text).expect("writable");
    GenerativeArgs::open(&path).map_err(|error| error.to_string())
}

#[test]
fn research_models_are_read_and_written() {
    let path = golden_set("torch").join("sequential.pt");
    let args = generative_args(SEQUENTIAL).expect("a good gin file");
    let read = HstuCheckpoint::from_generative(&args, &path).expect("it is read");
    assert_eq!((read.config.scaling_seqlen, read.config.max_history_tokens), (10, 9));
    let want = safetensors(&read);
    let (config, folder) = (read.config.clone(), tempfile::tempdir().expect("a folder"));
    read.write_generative(folder.path(), &mut |_| {}).expect("it is written");
    let again = GenerativeArgs::open(&folder.path().join("config.gin")).expect("a gin file");
    assert_eq!(again, args);
    let file = folder.path().join("checkpoint.pt");
    let back = HstuCheckpoint::from_generative(&again, &file).expect("it is read");
    assert_eq!(back.config, config);
    assert!(safetensors(&back) == want);
    let names: Vec<String> = state(&file).into_iter().map(|(name, ..)| name).collect();
    assert!(names.contains(&"_hstu._attention_layers.0._rel_attn_bias._ts_w".to_owned()));
    let files = back.into_files("sequential".into()).expect("it opens");
    let (_, tensors) = golden("seq_meta_relbias_concat");
    let rows = tensors.f32s("_embedding_module._item_emb.weight").expect("rows");
    let row: Vec<u8> = rows[16..32].iter().flat_map(|number| number.to_le_bytes()).collect();
    assert!(files.tables().expect("a table")[0].rows.row(1) == row);
}

#[test]
fn other_models_of_generative_recommenders_are_refused_with_the_reason() {
    let refused = |from: &str, to: &str, want: &str| {
        let message = generative_args(&SEQUENTIAL.replace(from, to)).expect_err(want);
        assert!(message.contains(want), "{message}");
    };
    refused("'HSTU'", "'SASRec'", "train_fn.main_module is \"SASRec\"");
    refused("num_heads", "num_head", "did you mean hstu_encoder.num_heads?");
    refused("hstu_encoder.dv", "hstu_encoder.normalization = 'softmax_rel_bias'\nA.x", "softmax");
    let path = golden_set("torch").join("sequential.pt");
    let heads = generative_args(&SEQUENTIAL.replace("dqk = 8", "dqk = 4")).expect("good");
    let message = HstuCheckpoint::from_generative(&heads, &path).err().expect("shapes").to_string();
    assert!(message.contains("sequential.pt") && message.contains("_uvqk"), "{message}");
    let folder = tempfile::tempdir().expect("a folder");
    let stu = folder.path().join("stu.pt");
    let name = "_hstu_transducer._stu_module._stu_layers.0._uvqk_weight".to_owned();
    write_state(&stu, &[(name, vec![1, 1], vec![0; 4])]);
    let message = HstuCheckpoint::from_generative(&heads, &stu).err().expect("stu").to_string();
    assert!(message.contains("a model of DLRMv3"), "{message}");
}

#[test]
fn pytorch_files_are_written_as_pytorch_has_read_them() {
    let numbers: Vec<u8> = (0..6).flat_map(|it| (it as f32 / 4.0).to_le_bytes()).collect();
    let ids: Vec<u8> = [7i64, -(1 << 50)].iter().flat_map(|it| it.to_le_bytes()).collect();
    let tensor = |dtype, shape: &[usize], parts| {
        TorchItem::Tensor(TorchItemTensor { dtype, shape: shape.to_vec(), parts })
    };
    let state = TorchItem::OrderedDict(vec![
        ("matrix".into(), tensor(TorchDtype::F32, &[2, 3], vec![&numbers[..8], &numbers[8..]])),
        ("half".into(), tensor(TorchDtype::Bf16, &[2], vec![&[0x80, 0x3f, 0x00, 0xc0]])),
        ("ids".into(), tensor(TorchDtype::I64, &[2], vec![&ids])),
        ("none".into(), tensor(TorchDtype::F32, &[0, 4], vec![])),
    ]);
    let saved = TorchItem::Dict(vec![
        ("model_state_dict".into(), state),
        ("optimizer_state_dict".into(), TorchItem::None),
        ("steps".into(), TorchItem::Int(1 << 40)),
    ]);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("written.pth");
    saved.write(&path, |_| {}).expect("it is written");
    let want = golden_set("torch").join("written.pth");
    let same = fs::read(&path).ok() == fs::read(&want).ok();
    let kept = if same { path } else { folder.keep().join("written.pth") };
    assert!(same, "{} is another; let tools/golden/torch_files.py read it", kept.display());
}
