//! The handles of one engine, for any thread.
//!
//! With a disk level they are files, of which the engine has some in memory; without one they are
//! in memory alone. Names, owners and times are looked after here, pages by the engine's thread.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use terrace_cache::TokenId;
use terrace_tiers::{DiskHandles, HandleError, HandleId, HandleInfo, HandleManifest, HandleReader};
use tokio::sync::oneshot;

use super::handle_identity::{HandleIdentity, short_fingerprint};
use super::memory_handles::{MemoryHandle, MemoryHandles};
use super::page_check::PageCheck;
use super::{HandleLabels, HandlePrompt, HandleSummary};
use crate::error::Error;
use crate::generate::kept_handle::{KeepAs, KeptHandle};
use crate::generate::past::Past;
use crate::generate::request::{Priority, Request, RequestId, Task};
use crate::generate::request_retention::RequestRetention;
use crate::generate::sampling_params::SamplingParams;
use crate::handle::EngineHandle;
use crate::text::PromptText;

/// Clones reach the same handles.
#[derive(Clone)]
pub struct KvHandles {
    shared: Arc<Shared>,
}

struct Shared {
    engine: EngineHandle,
    identity: HandleIdentity,
    disk: Option<Arc<DiskHandles>>,
    memory: Mutex<MemoryHandles>,
    /// Of files that were read, the lists in front of their pages.
    pasts: Mutex<BTreeMap<HandleId, Arc<Past>>>,
}

/// Files whose tokens are remembered.
const MAX_PASTS: usize = 64;

/// Lets what is kept under a name go, unless somebody has it by then.
struct Unclaimed<'a> {
    engine: &'a EngineHandle,
    id: HandleId,
    is_claimed: bool,
}

impl Drop for Unclaimed<'_> {
    fn drop(&mut self) {
        if !self.is_claimed {
            drop(self.engine.release(self.id));
        }
    }
}

impl KvHandles {
    /// Begins to load what is pinned.
    pub(crate) fn new(
        engine: EngineHandle,
        identity: HandleIdentity,
        disk: Option<Arc<DiskHandles>>,
    ) -> Self {
        let (memory, pasts) = (Mutex::default(), Mutex::default());
        let handles =
            KvHandles { shared: Arc::new(Shared { engine, identity, disk, memory, pasts }) };
        let disk = handles.shared.disk.as_ref();
        let pinned = disk.map(|disk| disk.store().list()).unwrap_or_default();
        for info in pinned.into_iter().filter(|info| info.is_pinned) {
            // The engine's thread logs what comes of it.
            let begun =
                handles.past(info.id).and_then(|past| handles.shared.engine.pin(info.id, past));
            if let Err(error) = begun {
                tracing::warn!("handle {:?} stays on the disk: {error}", info.name);
            }
        }
        handles
    }

    /// Computes a prompt and keeps its keys and values; returns when they are durable, where there
    /// is a disk level.
    pub async fn create_from_tokens(
        &self,
        prompt: HandlePrompt,
        labels: HandleLabels,
    ) -> Result<HandleSummary, Error> {
        let HandlePrompt { tokens, kv_cache, cache_salt, priority } = prompt;
        let identity = &self.shared.identity;
        let text = identity.tokenizer.as_deref().map(PromptText);
        let text = text.as_ref().map(|text| text as &dyn terrace_cache::policy::TokenText);
        if let Some(limit) = identity.caches.max_tokens(&kv_cache)?
            && limit < tokens.len()
        {
            let (prompt, new, slots) = (tokens.len(), 0, limit);
            return Err(Error::CacheTooShort { tokens: prompt, prompt, new, slots });
        }
        let cache = identity.caches.make(&kv_cache, &tokens, text, 0)?;
        // The prompt alone is computed.
        let task = Task::Generate(SamplingParams::greedy(0));
        let retention = RequestRetention::default();
        let request = Request { prompt: tokens, task, priority, cache_salt, cache, retention };
        self.create(None, request, labels).await
    }

    /// The same of a request with one output that has finished lately, its output included. What is
    /// no longer known of it is computed again.
    pub async fn create_from_request(
        &self,
        finished: RequestId,
        labels: HandleLabels,
    ) -> Result<HandleSummary, Error> {
        let past = self.shared.engine.recent(finished).await?;
        let request = past.again(Priority::default());
        self.create(Some(past), request, labels).await
    }

    /// Those of an owner, the oldest first.
    pub fn list(&self, owner: Option<&str>) -> Vec<HandleSummary> {
        let resident = self.shared.engine.resident_handles();
        let mut found = match &self.shared.disk {
            Some(disk) => {
                let now = unix_ms();
                let infos = disk.store().list().into_iter().filter(|info| !info.is_expired(now));
                infos.map(|info| self.summary_of_file(&info, &resident)).collect()
            }
            None => {
                let memory = self.memory();
                let all = memory.iter();
                all.map(|(id, it)| self.summary_of_memory(id, it, &resident)).collect::<Vec<_>>()
            }
        };
        found.retain(|handle| handle.owner.as_deref() == owner);
        found.sort_by_key(|handle| (handle.created_unix_ms, handle.id));
        found
    }

    /// By id, or else by name; another owner's is unknown.
    pub fn get(&self, name_or_id: &str, owner: Option<&str>) -> Result<HandleSummary, Error> {
        let is_its = |summary: &HandleSummary| summary.owner.as_deref() == owner;
        let by_id = HandleId::parse(name_or_id).and_then(|id| self.summary(id).ok());
        let found = by_id.filter(is_its).or_else(|| {
            let id = match &self.shared.disk {
                Some(disk) => disk.store().find(name_or_id, owner).map(|info| info.id),
                None => self.memory().find(name_or_id, owner),
            };
            self.summary(id?).ok()
        });
        found.ok_or_else(|| Error::NoSuchHandle { handle: name_or_id.into() })
    }

    /// All tokens of a handle. May read them from the disk, and then blocks for milliseconds.
    pub fn tokens(&self, id: HandleId) -> Result<Arc<[TokenId]>, Error> {
        Ok(self.past(id)?.tokens.as_slice().into())
    }

    /// Loads a handle and keeps it in memory, within the budget of pins; or lets that go.
    pub async fn set_pinned(&self, id: HandleId, is_pinned: bool) -> Result<HandleSummary, Error> {
        let Shared { engine, disk, .. } = &*self.shared;
        match is_pinned {
            true => {
                let pinned = engine.pin(id, self.past(id)?)?;
                pinned.await.map_err(|_| Error::Stopped)??;
            }
            false => {
                self.summary(id)?;
                engine.unpin(id)?;
            }
        }
        let written = match disk {
            Some(disk) => {
                let disk = Arc::clone(disk);
                beside(move || disk.store().set_pinned(id, is_pinned)).await
            }
            None => self.change(id, |handle| handle.is_pinned = is_pinned),
        };
        if written.is_err() && is_pinned {
            engine.unpin(id)?;
        }
        written?;
        self.summary(id)
    }

    /// From now on; `None` keeps it until it is removed.
    pub async fn set_ttl(
        &self,
        id: HandleId,
        ttl: Option<Duration>,
    ) -> Result<HandleSummary, Error> {
        let expires = expiry(unix_ms(), ttl);
        match &self.shared.disk {
            Some(disk) => {
                let disk = Arc::clone(disk);
                beside(move || disk.store().set_expiry(id, expires)).await?;
            }
            None => self.change(id, |handle| handle.expires_unix_ms = expires)?,
        }
        self.summary(id)
    }

    /// A name that another handle of the owner has is refused.
    pub async fn rename(&self, id: HandleId, name: &str) -> Result<HandleSummary, Error> {
        let named = name.to_owned();
        match &self.shared.disk {
            Some(disk) => {
                let disk = Arc::clone(disk);
                beside(move || disk.store().rename(id, &named)).await?;
            }
            None => {
                self.shared.identity.manifest(id, named.clone()).check().map_err(bad_name)?;
                let owner = self.summary(id)?.owner;
                if let Some(other) = self.memory().find(name, owner.as_deref())
                    && other != id
                {
                    return Err(HandleError::NameTaken { name: named, id: other }.into());
                }
                self.change(id, |handle| handle.name = named)?;
            }
        }
        self.summary(id)
    }

    /// Requests that go on from it finish.
    pub async fn remove(&self, id: HandleId) -> Result<(), Error> {
        match &self.shared.disk {
            Some(disk) => {
                self.summary(id)?;
                let disk = Arc::clone(disk);
                beside(move || disk.remove(id)).await?;
            }
            None => {
                let removed = self.memory().remove(id);
                removed.ok_or_else(|| Error::NoSuchHandle { handle: id.to_string() })?;
            }
        }
        // An engine that has stopped keeps nothing.
        let _ = self.forget(id).await;
        Ok(())
    }

    /// Writes a handle as a file, without its owner; its bytes. Blocks.
    pub fn export(&self, id: HandleId, sink: impl Write) -> Result<u64, Error> {
        self.summary(id)?;
        let disk = self.shared.disk.as_ref();
        Ok(disk.ok_or(Error::NoDiskLevel { what: "exporting a handle" })?.export(id, sink)?)
    }

    /// Stores a handle that came as a file, under a new id; without `name` it keeps its own. One
    /// that requests could never go on from here is refused with what differs. Blocks.
    pub fn import(
        &self,
        source: impl Read,
        owner: Option<&str>,
        name: Option<&str>,
    ) -> Result<HandleSummary, Error> {
        let disk = self.shared.disk.as_ref();
        let disk = disk.ok_or(Error::NoDiskLevel { what: "importing a handle" })?;
        let reader = HandleReader::new(source).map_err(HandleError::Given)?;
        let identity = &self.shared.identity;
        let past = identity.past(reader.manifest())?;
        let mut pages = PageCheck::new(&past, identity.groups(past.cache.as_deref()));
        let replaced = name.unwrap_or(&reader.manifest().name);
        let replaced = disk.store().find(replaced, owner);
        let info = disk.import(reader, owner, name, &mut |page| pages.take(page))?;
        replaced.into_iter().for_each(|replaced| drop(self.forget(replaced.id)));
        self.summary(info.id)
    }

    /// What requests go on from.
    pub(crate) fn past(&self, id: HandleId) -> Result<Arc<Past>, Error> {
        self.summary(id)?;
        let Some(disk) = &self.shared.disk else {
            let memory = self.memory();
            let found = memory.get(id).map(|handle| Arc::clone(&handle.past));
            return found.ok_or_else(|| Error::NoSuchHandle { handle: id.to_string() });
        };
        if let Some(past) = self.pasts().get(&id) {
            return Ok(Arc::clone(past));
        }
        let reader = disk.open_reader(id)?;
        let past = Arc::new(self.shared.identity.past(reader.manifest())?);
        let mut pasts = self.pasts();
        if MAX_PASTS <= pasts.len() {
            pasts.pop_first();
        }
        pasts.insert(id, Arc::clone(&past));
        Ok(past)
    }

    async fn create(
        &self,
        past: Option<Arc<Past>>,
        request: Request,
        labels: HandleLabels,
    ) -> Result<HandleSummary, Error> {
        let Shared { engine, identity, disk, .. } = &*self.shared;
        let id = HandleId::random();
        let manifest = self.manifest(id, &labels)?;
        let HandleManifest { name, owner, .. } = &manifest;
        let replaced = match disk {
            Some(disk) => disk.store().find(name, owner.as_deref()).map(|info| info.id),
            None => None,
        };
        let file = disk.as_ref().map(|_| Box::new(manifest.clone()));
        let mut unclaimed = Unclaimed { engine, id, is_claimed: false };
        let keep = KeepAs { id, manifest: file, pin: labels.pin };
        // Held until it is kept: dropping it cancels the request.
        let (_receiver, kept) = engine.keep(past, request, keep)?;
        let KeptHandle { past, pages, info } = kept.await.map_err(|_| Error::Stopped)??;
        unclaimed.is_claimed = true;
        let replaced = match info {
            Some(_) => replaced,
            None => {
                let HandleManifest { name, owner, created_unix_ms, expires_unix_ms, .. } = manifest;
                let is_pinned = labels.pin;
                let bytes = (pages * identity.page_bytes) as u64;
                let handle = MemoryHandle {
                    name,
                    owner,
                    created_unix_ms,
                    expires_unix_ms,
                    is_pinned,
                    bytes,
                    past,
                };
                self.memory().insert(id, handle)
            }
        };
        replaced.into_iter().for_each(|replaced| drop(self.forget(replaced)));
        self.summary(id)
    }

    fn manifest(&self, id: HandleId, labels: &HandleLabels) -> Result<HandleManifest, Error> {
        let own_name = || format!("handle-{}", &id.to_string()[..8]);
        let name = labels.name.clone().unwrap_or_else(own_name);
        let now = unix_ms();
        let manifest = HandleManifest {
            owner: labels.owner.clone(),
            created_unix_ms: now,
            expires_unix_ms: expiry(now, labels.ttl),
            is_pinned: labels.pin,
            ..self.shared.identity.manifest(id, name)
        };
        manifest.check().map_err(bad_name)?;
        Ok(manifest)
    }

    fn summary(&self, id: HandleId) -> Result<HandleSummary, Error> {
        let resident = self.shared.engine.resident_handles();
        let unknown = || Error::NoSuchHandle { handle: id.to_string() };
        match &self.shared.disk {
            Some(disk) => {
                let info = disk.store().get(id).map_err(|_| unknown())?;
                match info.is_expired(unix_ms()) {
                    true => Err(unknown()),
                    false => Ok(self.summary_of_file(&info, &resident)),
                }
            }
            None => {
                let memory = self.memory();
                let handle = memory.get(id).ok_or_else(unknown)?;
                Ok(self.summary_of_memory(id, handle, &resident))
            }
        }
    }

    fn summary_of_file(&self, info: &HandleInfo, resident: &[HandleId]) -> HandleSummary {
        HandleSummary {
            id: info.id,
            name: info.name.clone(),
            owner: info.owner.clone(),
            tokens: info.tokens as usize,
            bytes: info.file_bytes,
            created_unix_ms: info.created_unix_ms,
            expires_unix_ms: info.expires_unix_ms,
            is_pinned: info.is_pinned,
            is_durable: true,
            is_imported: info.is_imported,
            is_resident: resident.contains(&info.id),
            crosses_arithmetic: self.shared.identity.crosses_arithmetic(&info.arithmetic),
            kv_cache: info.kv_cache.clone(),
            cache_salt: info.cache_salt.clone(),
            model: short_fingerprint(&info.model),
        }
    }

    fn summary_of_memory(
        &self,
        id: HandleId,
        handle: &MemoryHandle,
        resident: &[HandleId],
    ) -> HandleSummary {
        let Past { tokens, cache, cache_salt, origin, .. } = &*handle.past;
        HandleSummary {
            id,
            name: handle.name.clone(),
            owner: handle.owner.clone(),
            tokens: tokens.len(),
            bytes: handle.bytes,
            created_unix_ms: handle.created_unix_ms,
            expires_unix_ms: handle.expires_unix_ms,
            is_pinned: handle.is_pinned,
            is_durable: false,
            is_imported: origin.is_imported,
            is_resident: resident.contains(&id),
            crosses_arithmetic: origin.arithmetic.is_some(),
            kv_cache: cache.as_ref().and_then(|cache| cache.options.clone()),
            cache_salt: cache_salt.clone(),
            model: short_fingerprint(&self.shared.identity.model),
        }
    }

    fn change(&self, id: HandleId, change: impl FnOnce(&mut MemoryHandle)) -> Result<(), Error> {
        let mut memory = self.memory();
        let handle = memory.get_mut(id);
        change(handle.ok_or_else(|| Error::NoSuchHandle { handle: id.to_string() })?);
        Ok(())
    }

    /// A handle is gone, and with it what is in memory of it; that is so when the receiver says.
    fn forget(&self, id: HandleId) -> oneshot::Receiver<()> {
        self.pasts().remove(&id);
        self.shared.engine.release(id)
    }

    /// Without what has expired.
    fn memory(&self) -> MutexGuard<'_, MemoryHandles> {
        let mut memory = self.shared.memory.lock().expect("nobody panics while holding it");
        let expired = memory.remove_expired(unix_ms()).into_iter();
        expired.for_each(|id| drop(self.shared.engine.release(id)));
        memory
    }

    fn pasts(&self) -> MutexGuard<'_, BTreeMap<HandleId, Arc<Past>>> {
        self.shared.pasts.lock().expect("nobody panics while holding it")
    }
}

fn bad_name(fault: terrace_tiers::ManifestFault) -> Error {
    HandleError::Name(fault).into()
}

/// Carries out what waits for a disk beside the runtime's threads.
async fn beside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, HandleError> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|_| Error::Stopped)??)
}

fn expiry(now_unix_ms: u64, ttl: Option<Duration>) -> Option<u64> {
    let ttl_ms = u64::try_from(ttl?.as_millis()).unwrap_or(u64::MAX);
    Some(now_unix_ms.saturating_add(ttl_ms))
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
