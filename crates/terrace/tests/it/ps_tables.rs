//! Tiny tables and configurations for tests of `terrace ps`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;
use terrace_embedding::{
    DatabaseFolder, KeyKind, PersistentKind, RowDatabase, SparseFolder, TableSpec, TagStyle,
    load_table,
};

pub const DIM: usize = 4;

/// A folder with everything that a test makes.
pub struct PsTables {
    folder: TempDir,
}

impl PsTables {
    pub fn new() -> Self {
        PsTables { folder: tempfile::tempdir().expect("a folder") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The files of a table: each key with a row that says it and a version.
    pub fn write_table(&self, name: &str, rows: &[(i64, f32)]) {
        let folder = self.path(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let keys: Vec<u8> = rows.iter().flat_map(|(key, _)| key.to_le_bytes()).collect();
        let numbers = rows.iter().flat_map(|(key, version)| row(*key, *version));
        let numbers: Vec<u8> = numbers.flat_map(f32::to_le_bytes).collect();
        std::fs::write(folder.join("key"), keys).expect("a file");
        std::fs::write(folder.join("emb_vector"), numbers).expect("a file");
    }

    /// A `ps.json` with one model `m`, whose table `t` is in the folder `files`.
    pub fn write_ps(&self, changes: &Value) -> String {
        let mut value = json!({
            "supportlonglong": true,
            "volatile_db": { "type": "disabled" },
            "models": [{
                "model": "m", "sparse_files": ["files"], "embedding_table_names": ["t"],
                "default_value_for_each_table": [0.25], "gpucacheper": 0.5,
            }],
        });
        for (name, change) in changes.as_object().expect("fields") {
            value[name] = change.clone();
        }
        let path = self.path("ps.json");
        std::fs::write(&path, value.to_string()).expect("a file");
        path.display().to_string()
    }

    /// The store in the folder `rows`.
    pub fn database(&self, kind: PersistentKind) -> std::sync::Arc<dyn RowDatabase> {
        let folder = DatabaseFolder { path: self.path("rows"), kind };
        folder.open_to_write(&[]).expect("a database")
    }

    /// Loads the folder `files` into the store, as a server does.
    pub fn load(&self, database: &dyn RowDatabase) {
        let folder = SparseFolder::open(&self.path("files"), None).expect("files");
        load_table(&spec(), &[folder], database, &mut |_| ()).expect("loaded");
    }
}

pub fn spec() -> TableSpec {
    let tag = TagStyle::Hps.table_tag("m", "t");
    TableSpec { tag, key_kind: KeyKind::I64, dim: DIM, default_value: 0.25 }
}

pub fn row(key: i64, version: f32) -> [f32; DIM] {
    [key as f32, version, 0.5, -1.0]
}

/// Of `terrace ps`.
pub struct PsOutput {
    pub code: Option<i32>,
    pub out: String,
    pub error: String,
}

impl PsOutput {
    /// It ended well, and printed JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}", self.error);
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }

    /// It failed, and said all of this.
    #[track_caller]
    pub fn fails_with(&self, parts: &[&str]) {
        assert_eq!(self.code, Some(1), "{}{}", self.out, self.error);
        for part in parts {
            assert!(self.error.contains(part), "no {part:?} in: {}", self.error);
        }
    }
}

pub fn ps<A: AsRef<Path>>(args: &[A]) -> PsOutput {
    ps_with(args, &[])
}

/// With variables of the environment.
pub fn ps_with<A: AsRef<Path>>(args: &[A], variables: &[(&str, &str)]) -> PsOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    command.arg("ps").args(args.iter().map(|arg| arg.as_ref()));
    command.envs(variables.iter().copied());
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    PsOutput { code: status.code(), out: text(&stdout), error: text(&stderr) }
}
