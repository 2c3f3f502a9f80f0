//! The files of one version of a click-through model.
//!
//! A version's folder has its network (`*.json`), its dense weights (`*_dense_*.model`) and a
//! folder for each table (`*_sparse_*.model`); an ONNX file (`*.onnx`) is network and weights in
//! one. Where the configuration names files of one version, the same names are looked for in the
//! others.

use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use terrace_embedding::ModelPath;

use super::repository_folder::ModelFolder;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionFiles {
    pub network: PathBuf,
    /// `None`: they are in the network's file.
    pub dense: Option<PathBuf>,
    /// Of BatchNorm layers, which HugeCTR writes beside the dense weights.
    pub statistics: Option<PathBuf>,
    /// One for each table, in their order.
    pub sparse: Vec<ModelPath>,
}

/// What a configuration names, in paths that are absolute or start in the model's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedFiles {
    pub network: Option<PathBuf>,
    pub dense: Option<PathBuf>,
    pub sparse: Vec<ModelPath>,
}

/// One version in a model's folder.
pub struct VersionFolder<'a> {
    pub folder: &'a ModelFolder,
    pub version: u64,
}

impl VersionFolder<'_> {
    pub fn path(&self) -> PathBuf {
        self.folder.path.join(self.version.to_string())
    }

    pub fn find(&self, named: &NamedFiles) -> Result<VersionFiles> {
        let entries = Entries::read(&self.path())?;
        let network = match self.own(named.network.as_deref()) {
            Some(network) => network,
            None => {
                let found = entries.of_model(&self.folder.name);
                self.only(found, "network (*.json or *.onnx)", "config")?
            }
        };
        let has_weights = network.extension().is_some_and(|it| it == "onnx");
        let dense = match self.own(named.dense.as_deref()) {
            _ if has_weights => None,
            Some(dense) => Some(dense),
            None => {
                let what = "file of dense weights (*_dense_*.model)";
                Some(self.only(entries.dense, what, "dense_file")?)
            }
        };
        let own = named.sparse.iter().map(|path| match path {
            ModelPath::Local(path) => self.own(Some(path)).map(|path| self.folder.origin(&path)),
            ModelPath::ObjectStore(_) => Some(path.clone()),
        });
        let sparse = match own.collect::<Option<Vec<ModelPath>>>().filter(|own| !own.is_empty()) {
            Some(sparse) => sparse,
            None => self.tables(&entries.sparse)?,
        };
        let beside = |dense: &PathBuf| PathBuf::from(format!("{}.ntp.json", dense.display()));
        let statistics = dense.as_ref().map(beside).filter(|path| path.is_file());
        Ok(VersionFiles { network, dense, statistics, sparse })
    }

    /// A named file, or the one of its name in this version; `None` where that is not there.
    fn own(&self, named: Option<&Path>) -> Option<PathBuf> {
        let named = self.folder.path.join(named?);
        let Ok(inside) = named.strip_prefix(&self.folder.path) else { return Some(named) };
        let mut parts = inside.components();
        let first = parts.next();
        let is_version = matches!(first, Some(Component::Normal(name))
            if name.to_str().is_some_and(|name| name.parse::<u64>().is_ok()));
        let own = match is_version {
            true => self.path().join(parts.as_path()),
            false => named,
        };
        own.exists().then_some(own)
    }

    fn only(&self, mut found: Vec<PathBuf>, what: &str, name: &str) -> Result<PathBuf> {
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => bail!("{} has no {what}", self.path().display()),
            _ => bail!(
                "{} has several files that may be its {what}: {}; say which in config.pbtxt, \
                 parameter {name:?}",
                self.path().display(),
                found.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
            ),
        }
    }

    /// Folders by the number of their table, which stands before `_sparse_`, behind a name that is
    /// the same for all: digits that the name ends with change nothing in their order.
    fn tables(&self, folders: &[PathBuf]) -> Result<Vec<ModelPath>> {
        let number = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let (before, _) = name.split_once("_sparse_").unwrap_or((name, ""));
            let letters = before.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            before[letters..].parse::<u64>().unwrap_or(0)
        };
        let mut folders: Vec<(u64, &PathBuf)> = folders.iter().map(|it| (number(it), it)).collect();
        folders.sort();
        if let Some(pair) = folders.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            bail!(
                "{} and {} have the same number; say which one is meant in config.pbtxt, parameter \
                 \"sparse_files\"",
                pair[0].1.display(),
                pair[1].1.display()
            );
        }
        if folders.is_empty() {
            bail!("{} has no table (*_sparse_*.model)", self.path().display());
        }
        Ok(folders.into_iter().map(|(_, path)| self.folder.origin(path)).collect())
    }
}

/// What a version's folder has.
struct Entries {
    networks: Vec<PathBuf>,
    dense: Vec<PathBuf>,
    sparse: Vec<PathBuf>,
}

impl Entries {
    fn read(folder: &Path) -> Result<Self> {
        let mut entries = Entries { networks: Vec::new(), dense: Vec::new(), sparse: Vec::new() };
        let listed = std::fs::read_dir(folder);
        for entry in listed.with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let is_model = name.ends_with(".model");
            if is_model && name.contains("_sparse_") {
                entries.sparse.push(path);
            } else if is_model && name.contains("_dense_") {
                entries.dense.push(path);
            } else if is_network(name) {
                entries.networks.push(path);
            }
        }
        Ok(entries)
    }

    /// The one that is called as the model, or all.
    fn of_model(&self, model: &str) -> Vec<PathBuf> {
        let is_own = |path: &&PathBuf| path.file_stem().is_some_and(|stem| stem == model);
        match self.networks.iter().find(is_own) {
            Some(own) => vec![own.clone()],
            None => self.networks.clone(),
        }
    }
}

fn is_network(name: &str) -> bool {
    let is_other = name.ends_with(".ntp.json") || name == "ps.json";
    name.ends_with(".onnx") || (name.ends_with(".json") && !is_other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model folder with these files and folders.
    fn folder(paths: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for path in paths {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            match path.to_string_lossy().contains("_sparse_") {
                true => std::fs::create_dir(path).expect("a folder"),
                false => std::fs::write(path, "").expect("a file"),
            }
        }
        folder
    }

    const DCN: [&str; 8] = [
        "1/dcn.json",
        "1/dcn_dense_10.model",
        "1/dcn1_sparse_10.model",
        "1/dcn0_sparse_10.model",
        "2/dcn.json",
        "2/dcn_dense_20.model",
        "2/dcn10_sparse_20.model",
        "2/dcn9_sparse_20.model",
    ];

    fn find(folder: &Path, version: u64, named: &NamedFiles) -> Result<VersionFiles> {
        let folder = ModelFolder::at("dcn", folder);
        VersionFolder { folder: &folder, version }.find(named)
    }

    fn sparse(folder: &Path, names: [&str; 2]) -> Vec<ModelPath> {
        names.iter().map(|name| ModelPath::Local(folder.join(name))).collect()
    }

    #[test]
    fn files_are_found_by_their_endings_and_tables_by_their_numbers() {
        let folder = folder(&DCN);
        let path = folder.path();
        let files = find(path, 1, &NamedFiles::default()).expect("they are there");
        assert_eq!(files.network, path.join("1/dcn.json"));
        assert_eq!(files.dense, Some(path.join("1/dcn_dense_10.model")));
        let wanted = sparse(path, ["1/dcn0_sparse_10.model", "1/dcn1_sparse_10.model"]);
        assert_eq!(files.sparse, wanted);
        let files = find(path, 2, &NamedFiles::default()).expect("they are there");
        let wanted = sparse(path, ["2/dcn9_sparse_20.model", "2/dcn10_sparse_20.model"]);
        assert_eq!(files.sparse, wanted);
    }

    #[test]
    fn an_onnx_file_has_its_weights_in_it() {
        let folder = folder(&["1/model.onnx", "1/dcn0_sparse_10.model"]);
        let files = find(folder.path(), 1, &NamedFiles::default()).expect("they are there");
        assert_eq!(files.network, folder.path().join("1/model.onnx"));
        assert_eq!((files.dense, files.statistics), (None, None));
    }

    #[test]
    fn what_is_named_for_one_version_is_looked_for_in_the_others() {
        let folder = folder(&DCN);
        let path = folder.path();
        let named = NamedFiles {
            network: Some("1/dcn.json".into()),
            dense: Some(path.join("1/dcn_dense_10.model")),
            sparse: sparse(path, ["1/dcn1_sparse_10.model", "1/dcn0_sparse_10.model"]),
        };
        let first = find(path, 1, &named).expect("they are there");
        assert_eq!(first.sparse, named.sparse, "in the order in which they are named");
        let second = find(path, 2, &named).expect("they are found by their endings");
        assert_eq!(second.network, path.join("2/dcn.json"));
        assert_eq!(second.dense, Some(path.join("2/dcn_dense_20.model")));
        let elsewhere = NamedFiles { dense: Some("/models/other.model".into()), ..named };
        let third = find(path, 2, &elsewhere).expect("a path of its own is taken as it is");
        assert_eq!(third.dense.as_deref(), Some(Path::new("/models/other.model")));
    }

    #[test]
    fn what_is_missing_or_doubled_is_said() {
        let bare = folder(&["1/x.json", "1/y.json"]);
        let error = find(bare.path(), 1, &NamedFiles::default()).expect_err("two networks");
        assert!(error.to_string().contains("several files"), "{error}");
        let bare = folder(&["1/x.json"]);
        let error = find(bare.path(), 1, &NamedFiles::default()).expect_err("no weights");
        assert!(error.to_string().contains("has no file of dense weights"), "{error}");
        let error = find(bare.path(), 2, &NamedFiles::default()).expect_err("no such version");
        assert!(error.to_string().contains("cannot read"), "{error}");
        let two = [&DCN[..], &["1/dcn0_sparse_20.model"]].concat();
        let error =
            find(folder(&two).path(), 1, &NamedFiles::default()).expect_err("two of table 0");
        assert!(error.to_string().contains("have the same number"), "{error}");
    }
}
