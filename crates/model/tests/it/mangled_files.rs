//! Broken model files, by the thousand: each is read or refused, and nothing panics.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use terrace_model::{
    AddSpecial, Error, Families, GgufFile, ModelConfig, SpecialTokens, Tokenizer, Weights,
};
use terrace_testkit::golden_set;

use crate::gguf_writer::{GgufWriter, TENSOR_Q8_0};
use crate::{tokenizer_folder, tokenizer_gguf, weights};

const CASES: u32 = 3000;
const SEED: u64 = 20_260_822;

#[test]
fn mangled_files_end_in_an_error() {
    println!("seed {SEED}");
    quiet_foreign_panics();
    let samples = [gguf_sample(), safetensors_sample(), tokenizer_sample(), config_sample()];
    for sample in &samples {
        sample.read_bytes(&sample.bytes).expect("the whole file is good");
    }
    let config = Config {
        cases: CASES,
        rng_seed: RngSeed::Fixed(SEED),
        failure_persistence: None,
        ..Config::default()
    };
    let strategy = (0..samples.len()).prop_flat_map(|which| {
        (Just(which), prop::collection::vec(damage(samples[which].has_json), 1..5))
    });
    TestRunner::new(config)
        .run(&strategy, |(which, damages)| {
            let sample = &samples[which];
            let mangled =
                damages.iter().fold(sample.bytes.clone(), |bytes, damage| damage.done_to(bytes));
            // An error is as good as a success here; only a panic is not.
            let _ = sample.read_bytes(&mangled);
            Ok(())
        })
        .unwrap_or_else(|error| panic!("seed {SEED}: {error}"));
}

/// Opens a file and uses all that is in it.
type Read = Box<dyn Fn(&Path) -> Result<(), Error>>;

/// A good file, and everything that is done with such a file.
struct Sample {
    bytes: Vec<u8>,
    has_json: bool,
    /// Holds nothing but the file at hand, so that nothing beside it is read.
    folder: tempfile::TempDir,
    read: Read,
}

impl Sample {
    fn new(bytes: Vec<u8>, read: impl Fn(&Path) -> Result<(), Error> + 'static) -> Self {
        let has_json = !bytes.starts_with(b"GGUF");
        let folder = tempfile::tempdir().expect("a temporary folder");
        Sample { bytes, has_json, folder, read: Box::new(read) }
    }

    fn read_bytes(&self, bytes: &[u8]) -> Result<(), Error> {
        // A new file each time: writing over one that exists is a hundred times slower.
        let mut file = NamedTempFile::new_in(&self.folder).expect("the folder can be written");
        file.write_all(bytes).expect("the file can be written");
        (self.read)(file.path())
    }
}

fn gguf_sample() -> Sample {
    Sample::new(small_llama().to_bytes(), |path| {
        let file = GgufFile::open(path)?;
        let weights = Weights::from_gguf(&file);
        read_all(&weights);
        use_tokenizer(&Tokenizer::from_gguf(&file)?);
        Families::known().read(&ModelConfig::from_gguf(&file)?, &weights).map(drop)
    })
}

fn safetensors_sample() -> Sample {
    Sample::new(weights::sample().to_bytes(), |path| {
        read_all(&Weights::open_safetensors_file(path)?);
        Ok(())
    })
}

fn tokenizer_sample() -> Sample {
    let bytes = tokenizer_folder::sample().to_string().into_bytes();
    Sample::new(bytes, |path| {
        use_tokenizer(&Tokenizer::from_file(path)?);
        Ok(())
    })
}

fn config_sample() -> Sample {
    let folder = golden_set("llm").join("llama_plain");
    let weights = Arc::new(Weights::open_safetensors(&folder).expect("golden weights"));
    let bytes = std::fs::read(folder.join("config.json")).expect("golden configuration");
    Sample::new(bytes, move |path| {
        let text = std::fs::read(path).expect("it was just written");
        let config = ModelConfig::from_json(&String::from_utf8_lossy(&text))?;
        Families::known().read(&config, &weights).map(drop)
    })
}

fn read_all(weights: &Weights) {
    for name in weights.names() {
        let rank = weights.info(name).expect("it is listed").shape.len();
        assert_eq!(weights.matrix(name).is_ok(), rank == 2, "{name}");
        if let Ok(vector) = weights.vector(name) {
            assert_eq!(rank, 1, "{name} is a vector of {}", vector.len());
        }
    }
}

fn use_tokenizer(tokenizer: &Tokenizer) {
    if let Ok(ids) = tokenizer.encode("hi ab<s> é\n", AddSpecial::Yes) {
        let _ = tokenizer.decode(&ids, SpecialTokens::Keep);
    }
    let mut stream = tokenizer.stream(SpecialTokens::Skip);
    for id in 0..32 {
        let _ = stream.push(id);
    }
    stream.finish();
}

/// One thing that may happen to a file.
#[derive(Clone, Debug)]
enum Damage {
    Truncate(Index),
    Flip {
        at: Index,
        bit: u8,
    },
    Overwrite {
        at: Index,
        with: Vec<u8>,
    },
    Insert {
        at: Index,
        what: Vec<u8>,
    },
    Remove {
        at: Index,
        count: usize,
    },
    /// A value of the file's JSON becomes another; a file without JSON stays as it is.
    Swap {
        node: Index,
        value: Value,
    },
}

fn damage(has_json: bool) -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    let pieces = || prop::sample::select(pieces());
    let values = prop::sample::select(values());
    let swaps = if has_json { 12 } else { 1 };
    prop_oneof![
        1 => at().prop_map(Damage::Truncate),
        2 => (at(), 0..8u8).prop_map(|(at, bit)| Damage::Flip { at, bit }),
        2 => (at(), pieces()).prop_map(|(at, with)| Damage::Overwrite { at, with }),
        1 => (at(), pieces()).prop_map(|(at, what)| Damage::Insert { at, what }),
        1 => (at(), 1..64usize).prop_map(|(at, count)| Damage::Remove { at, count }),
        // Bytes changed at random are seldom JSON still; this reaches what lies behind.
        swaps => (at(), values).prop_map(|(node, value)| Damage::Swap { node, value }),
    ]
}

/// Counts and texts that a careless reader would believe.
fn pieces() -> Vec<Vec<u8>> {
    let counts = [0, 1, 1 << 31, 1 << 40, 1 << 62, u64::MAX - 7, u64::MAX];
    let mut pieces: Vec<Vec<u8>> = counts.map(|count| count.to_le_bytes().into()).into();
    pieces.extend(["18446744073709551615", "-1", "1e999", "null", "[[[[[[", "\""].map(Into::into));
    pieces
}

fn values() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(-1),
        json!(4_294_967_295u64),
        json!(u64::MAX),
        json!(0.5),
        json!(1e300),
        json!(""),
        json!("####"),
        json!("BPE"),
        json!([]),
        json!({}),
        json!(["a", "b"]),
        json!({ "a": 0 }),
    ]
}

impl Damage {
    fn done_to(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if bytes.is_empty() {
            return bytes;
        }
        let length = bytes.len();
        match self {
            Damage::Truncate(at) => bytes.truncate(at.index(length)),
            Damage::Flip { at, bit } => bytes[at.index(length)] ^= 1 << bit,
            Damage::Overwrite { at, with } => {
                let at = at.index(length);
                let count = with.len().min(length - at);
                bytes[at..at + count].copy_from_slice(&with[..count]);
            }
            Damage::Insert { at, what } => {
                bytes.splice(at.index(length)..at.index(length), what.iter().copied());
            }
            Damage::Remove { at, count } => {
                let at = at.index(length);
                bytes.drain(at..(at + count).min(length));
            }
            Damage::Swap { node, value } => return swapped(bytes, *node, value),
        }
        bytes
    }
}

/// Replaces one value of a JSON file, or of the JSON in front of a safetensors file.
fn swapped(bytes: Vec<u8>, node: Index, value: &Value) -> Vec<u8> {
    if let Some(json) = with_swapped_value(&bytes, node, value) {
        return json;
    }
    let Some((length, rest)) = bytes.split_first_chunk() else { return bytes };
    let length = u64::from_le_bytes(*length) as usize;
    let Some((header, data)) = rest.split_at_checked(length) else { return bytes };
    let Some(header) = with_swapped_value(header, node, value) else { return bytes };
    [&(header.len() as u64).to_le_bytes(), header.as_slice(), data].concat()
}

fn with_swapped_value(json: &[u8], node: Index, value: &Value) -> Option<Vec<u8>> {
    let mut json: Value = serde_json::from_slice(json).ok()?;
    let chosen = node.index(nodes(&mut json, &mut |_| {}));
    let mut number = 0;
    nodes(&mut json, &mut |found| {
        if number == chosen {
            *found = value.clone();
        }
        number += 1;
    });
    Some(json.to_string().into_bytes())
}

/// Visits every value of a JSON tree and counts them.
fn nodes(json: &mut Value, visit: &mut impl FnMut(&mut Value)) -> usize {
    let below: usize = match json {
        Value::Array(values) => values.iter_mut().map(|value| nodes(value, visit)).sum(),
        Value::Object(values) => values.values_mut().map(|value| nodes(value, visit)).sum(),
        _ => 0,
    };
    visit(json);
    below + 1
}

/// A Llama of one layer with a tokenizer.
fn small_llama() -> GgufWriter {
    let (hidden, vocab, ffn) = (32, 271, 64);
    let mut writer = tokenizer_gguf::sentence_piece()
        .text("general.architecture", "llama")
        .u32("llama.block_count", 1)
        .u32("llama.context_length", 64)
        .u32("llama.embedding_length", hidden)
        .u32("llama.feed_forward_length", ffn)
        .u32("llama.attention.head_count", 2)
        .u32("llama.attention.head_count_kv", 1)
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5)
        .f32("llama.rope.freq_base", 1e4);
    let q8_0 = |rows: u32, columns: u32| vec![0; (rows * columns / 32 * 34) as usize];
    let shapes = [
        ("token_embd", vocab, hidden),
        ("blk.0.attn_q", hidden, hidden),
        ("blk.0.attn_k", hidden / 2, hidden),
        ("blk.0.attn_v", hidden / 2, hidden),
        ("blk.0.attn_output", hidden, hidden),
        ("blk.0.ffn_gate", ffn, hidden),
        ("blk.0.ffn_up", ffn, hidden),
        ("blk.0.ffn_down", hidden, ffn),
    ];
    for (name, rows, columns) in shapes {
        let shape = [rows.into(), columns.into()];
        let name = format!("{name}.weight");
        writer = writer.tensor(&name, TENSOR_Q8_0, &shape, q8_0(rows, columns));
    }
    for name in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"] {
        let ones = vec![1.0; hidden as usize];
        writer = writer.f32_tensor(&format!("{name}.weight"), &[hidden.into()], &ones);
    }
    writer
}

/// Keeps quiet about panics inside the `tokenizers` crate, which loading catches: there are many,
/// and each would print a stack.
fn quiet_foreign_panics() {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let foreign = info.location().is_some_and(|at| at.file().contains("tokenizers"));
        if !foreign {
            loud(info);
        }
    }));
}
