//! Models from the Hugging Face hub, kept in the folder that its other clients use.
//!
//! Honours `HF_HOME`, `HF_TOKEN`, `HF_ENDPOINT` and `HF_HUB_OFFLINE`. A model that is here is used
//! without asking the hub; `terrace pull` asks whether there is a newer one. Invariant: a revision
//! that was pulled here points to a whole snapshot, because it is written last.

mod hub_id;
mod wanted_files;

pub use hub_id::HubId;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};
use wanted_files::{SHARD_INDEX, Wanted, shards};

pub struct Hub {
    cache: Cache,
    api: Api,
    endpoint: String,
    offline: bool,
}

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";
const RETRIES: usize = 3;

impl Hub {
    pub fn from_env() -> Result<Self> {
        let text = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        if text("HF_HOME").is_none() && text("HOME").is_none() {
            bail!("no folder for models of the hub: set HF_HOME or HOME");
        }
        let cache = Cache::from_env();
        let token = text("HF_TOKEN").or_else(|| cache.token());
        let api = ApiBuilder::from_cache(cache.clone())
            .with_endpoint(endpoint.clone())
            .with_token(token)
            .with_retries(RETRIES)
            .build()?;
        let offline = text("HF_HUB_OFFLINE").is_some_and(|value| value != "0");
        Ok(Self { cache, api, endpoint, offline })
    }

    /// The model's file or folder; it is got first if it is not there.
    pub fn ensure(&self, id: &HubId) -> Result<PathBuf> {
        match self.cached(id) {
            Some(path) => Ok(path),
            None => self.pull(id),
        }
    }

    /// The newest files of the model's revision.
    pub fn pull(&self, id: &HubId) -> Result<PathBuf> {
        if self.offline {
            bail!("{id} is not whole in {} and HF_HUB_OFFLINE is set", self.cache.path().display());
        }
        let info = self.api.repo(repo(id, &id.revision)).info();
        let info = info.map_err(|error| self.refusal(id, error))?;
        if !info.sha.bytes().all(|letter| letter.is_ascii_hexdigit()) {
            bail!("{} names the commit {:?} for {id}, which is none", self.endpoint, info.sha);
        }
        let files: Vec<String> = info.siblings.into_iter().map(|file| file.rfilename).collect();
        let of_hub = || format!("{id} on {}", self.endpoint);
        let wanted = Wanted::of(&files, id.file.as_deref()).with_context(of_hub)?;
        // All files of one commit, whatever the branch does meanwhile; those of it that another
        // client has put here are found by this mark.
        self.cache.repo(repo(id, &info.sha)).create_ref(&info.sha).with_context(of_hub)?;
        let snapshot = self.api.repo(repo(id, &info.sha));
        let path = match wanted {
            Wanted::Gguf(file) => self.get(&snapshot, id, &file)?,
            Wanted::Folder(files) => self.get_folder(&snapshot, id, &files)?,
        };
        self.cache.repo(repo(id, &id.revision)).create_ref(&info.sha).with_context(of_hub)?;
        Ok(path)
    }

    fn get_folder(&self, snapshot: &ApiRepo, id: &HubId, files: &[String]) -> Result<PathBuf> {
        let mut paths = Vec::new();
        for file in files {
            let path = self.get(snapshot, id, file)?;
            if file == SHARD_INDEX {
                for shard in shards(&fs::read(&path)?)? {
                    self.get(snapshot, id, &shard)?;
                }
            }
            paths.push(path);
        }
        let folder = paths.first().and_then(|path| path.parent());
        Ok(folder.context("a file of the hub lies in no folder")?.to_owned())
    }

    /// The model as it lies here, if it is whole.
    fn cached(&self, id: &HubId) -> Option<PathBuf> {
        let repo = self.cache.repo(repo(id, &id.revision));
        if let Some(file) = &id.file {
            return repo.get(file);
        }
        let folder = repo.get("config.json").or_else(|| repo.get(""))?;
        let folder = if folder.is_dir() { folder } else { folder.parent()?.to_owned() };
        let names = fs::read_dir(&folder)
            .ok()?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let names: Vec<String> = names.collect();
        match Wanted::of(&names, None).ok()? {
            Wanted::Gguf(file) => Some(folder.join(file)),
            Wanted::Folder(files) if files.iter().any(|file| file == SHARD_INDEX) => {
                let index = fs::read(folder.join(SHARD_INDEX)).ok()?;
                shards(&index).ok()?.is_subset(&names.into_iter().collect()).then_some(folder)
            }
            Wanted::Folder(_) => Some(folder),
        }
    }

    fn get(&self, snapshot: &ApiRepo, id: &HubId, file: &str) -> Result<PathBuf> {
        let got = snapshot.get(file).map_err(|error| self.refusal(id, error));
        got.with_context(|| format!("cannot get {file}"))
    }

    /// What to do about it, where that can be said.
    fn refusal(&self, id: &HubId, error: ApiError) -> anyhow::Error {
        let status = match &error {
            ApiError::RequestError(error) => match **error {
                ureq::Error::StatusCode(status) => Some(status),
                _ => None,
            },
            _ => None,
        };
        let endpoint = &self.endpoint;
        match status {
            Some(status @ (401 | 403)) => anyhow!(
                "{endpoint} does not show {id} (status {status}): it does not exist, or HF_TOKEN \
                 must hold a token that may read it"
            ),
            Some(404) => anyhow!("{endpoint} has no {id} (status 404)"),
            _ => anyhow!("cannot get {id} from {endpoint}: {error}"),
        }
    }
}

fn repo(id: &HubId, revision: &str) -> Repo {
    Repo::with_revision(id.repo.clone(), RepoType::Model, revision.to_owned())
}
