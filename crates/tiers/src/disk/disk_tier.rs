//! Page records on a local disk: a file of frames, each for one record, and a directory beside it.
//!
//! The files of the folder never have more bytes than the budget, whatever is put. A record that
//! does not fit takes the frame of one that is worth less. Nothing is compacted and nothing moves,
//! so a write costs its own bytes and no others.
//!
//! The order of writes is: the directory's entry of what leaves is cleared, the record is written,
//! its entry is written. A process killed anywhere between leaves a frame without an entry. A power
//! cut may leave any mixture, so what a read finds decides: a record that is not whole, or not
//! that of its key, is a miss, and is dropped. What was put before a [`sync`](PageTier::sync)
//! survives both.
//!
//! Frames are read and written beside each other; the one lock is held for the books alone.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use terrace_cache::PageKey;
use terrace_cache::placement::{PlacementRule, Retention};

use super::directory_file::{DirectoryFile, ENTRY_BYTES};
use super::folder::{Folder, OtherPages};
use super::frame_file::{FrameFile, FrameRead, frame_bytes};
use super::frame_space::{FrameId, FrameSpace, Reserved};
use super::in_parallel::in_parallel;
use super::io_fault::io_fault;
use crate::page_tier::{FoundRecord, PageTier, Stored, TierRecord, TierRetention, TierUsage};
use crate::record;
use crate::tier_error::TierError;

/// Of one call: a disk needs several requests at once to reach its speed, and checksums share the
/// cores. `benches/tiers.md` has what others give.
const THREADS: usize = 4;

#[derive(Clone, Debug)]
pub struct DiskTierConfig {
    /// Made if there is none. One process at a time has it.
    pub folder: PathBuf,
    /// Of all files in it.
    pub budget_bytes: u64,
    /// Of every record, header included.
    pub record_bytes: usize,
    /// Who leaves when the budget is used up.
    pub placement: PlacementRule,
}

pub struct DiskTier {
    config: DiskTierConfig,
    folder: Folder,
    frames: FrameFile,
    directory: DirectoryFile,
    state: Mutex<State>,
}

struct State {
    space: FrameSpace,
    /// The longest unused last.
    others: Vec<OtherPages>,
    /// What others write into the folder.
    reserved_bytes: u64,
    /// Records that a read found damaged.
    damaged: u64,
}

impl DiskTier {
    pub fn open(config: DiskTierConfig) -> Result<Self, TierError> {
        let least_bytes = ENTRY_BYTES + frame_and_entry_bytes(config.record_bytes);
        if config.budget_bytes < least_bytes {
            return Err(TierError::Full(format!(
                "a budget of {} bytes has no room for a page in {}; give it {least_bytes} or more",
                config.budget_bytes,
                config.folder.display()
            )));
        }
        let folder = Folder::take(&config.folder)?;
        let (directory, listed) =
            DirectoryFile::open(folder.directory_path(config.record_bytes), config.record_bytes)?;
        let frames_path = folder.frames_path(config.record_bytes);
        let frames = FrameFile::open(frames_path, config.record_bytes, listed.is_new)?;
        directory.touch().map_err(io_fault("cannot write", directory.path()))?;
        folder.sync()?;

        let mut others = folder.others(config.record_bytes)?;
        while bytes_used(&config, &others, 0, listed.frames.len()) > config.budget_bytes
            && let Some(other) = others.pop()
        {
            folder.delete(&other)?;
        }
        let limit = frames_within(&config, &others, 0);
        let space = FrameSpace::new(config.placement, listed.frames, limit);
        let state = Mutex::new(State { space, others, reserved_bytes: 0, damaged: 0 });
        let tier = DiskTier { config, folder, frames, directory, state };
        tier.match_frames_to_directory()?;
        tier.trim(&mut tier.lock())?;
        Ok(tier)
    }

    /// Leaves `bytes` of the budget to what others write into the folder, and says which records
    /// it has given up for that.
    pub fn set_reserved_bytes(&self, bytes: u64) -> Result<Vec<PageKey>, TierError> {
        let mut state = self.lock();
        state.reserved_bytes = bytes;
        while self.bytes_used(&state) > self.config.budget_bytes
            && let Some(other) = state.others.pop()
        {
            self.folder.delete(&other)?;
        }
        let limit = frames_within(&self.config, &state.others, bytes);
        let evicted = state.space.set_limit(limit);
        self.trim(&mut state)?;
        Ok(evicted)
    }

    /// Panics where the books disagree.
    pub fn check(&self) {
        self.lock().space.check();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with the books in hand")
    }

    /// Forgets what the directory says of frames that the file does not have, and cuts off those
    /// that the directory does not have: a process was killed before it wrote their entries.
    fn match_frames_to_directory(&self) -> Result<(), TierError> {
        let mut state = self.lock();
        for index in self.frames.whole_frames()?..state.space.frames() {
            let frame = FrameId(index as u32);
            if state.space.forget(frame).is_some() {
                self.directory.clear(frame)?;
            }
        }
        self.frames.truncate(state.space.frames())
    }

    /// Gives the disk back what is over the limit and free.
    fn trim(&self, state: &mut State) -> Result<(), TierError> {
        if !state.space.trim() {
            return Ok(());
        }
        let frames = state.space.frames();
        self.directory.truncate(frames)?;
        self.frames.truncate(frames)
    }

    /// Makes room for new frames by deleting page files that are not in use.
    fn delete_others(&self, state: &mut State, frames: usize) -> Result<(), TierError> {
        while state.space.room() < frames
            && let Some(other) = state.others.pop()
        {
            self.folder.delete(&other)?;
            let limit = frames_within(&self.config, &state.others, state.reserved_bytes);
            state.space.set_limit(limit);
        }
        Ok(())
    }

    fn bytes_used(&self, state: &State) -> u64 {
        bytes_used(&self.config, &state.others, state.reserved_bytes, state.space.frames())
    }

    fn release(&self, frame: FrameId) -> Result<(), TierError> {
        let mut state = self.lock();
        state.space.release(frame);
        self.trim(&mut state)
    }

    fn sync_files(&self) -> Result<(), TierError> {
        self.frames.sync()?;
        self.directory.sync()
    }

    /// Reads a frame that the caller holds. What is not the record of `key` is forgotten, and the
    /// fault is returned.
    fn read(
        &self,
        frame: FrameId,
        key: &PageKey,
        found: impl FnOnce(&[u8]),
    ) -> Result<Option<String>, TierError> {
        let fault = match self.frames.read(frame)? {
            FrameRead::BehindTheEnd => Some("the file ends before it".to_owned()),
            FrameRead::Record(buffer) => {
                let record = self.frames.record(&buffer);
                let fault = record::verify(record, key).err();
                if fault.is_none() {
                    found(record);
                }
                self.frames.give_back(buffer);
                fault.map(|fault| fault.to_string())
            }
        };
        if fault.is_some() {
            let mut state = self.lock();
            state.space.forget(frame);
            state.damaged += 1;
            drop(state);
            self.directory.clear(frame)?;
        }
        Ok(fault)
    }

    /// One line, however many pages of a call are damaged.
    fn log_dropped(&self, faults: &[(FrameId, String)]) {
        let Some((frame, first)) = faults.first() else { return };
        let (count, folder, frame) = (faults.len(), self.config.folder.display(), frame.0);
        tracing::warn!("dropped {count} pages of {folder}; the first, in frame {frame}: {first}");
    }

    /// Does what was decided for a record, and says whether the tier has it now.
    fn write(&self, record: &TierRecord<'_>, place: &Place) -> Result<bool, TierError> {
        match place.reserved {
            Reserved::NoRoom => Ok(false),
            Reserved::Present { frame, known, raised } => {
                let written = if raised { self.directory.set(frame, &known) } else { Ok(()) };
                self.release(frame)?;
                written.map(|()| true)
            }
            Reserved::Write { frame, evicted } => {
                let kept = self.write_frame(record, frame, evicted.is_some(), place.retention);
                self.release(frame)?;
                kept
            }
        }
    }

    fn write_frame(
        &self,
        record: &TierRecord<'_>,
        frame: FrameId,
        was_used: bool,
        retention: Retention,
    ) -> Result<bool, TierError> {
        if was_used {
            self.directory.clear(frame)?;
        }
        self.frames.write(frame, record.bytes)?;
        let mut state = self.lock();
        let Some(known) = state.space.written(frame, record.key, retention) else {
            return Ok(state.space.contains(&record.key));
        };
        drop(state);
        self.directory.set(frame, &known).inspect_err(|_| {
            self.lock().space.forget(frame);
        })?;
        Ok(true)
    }
}

/// Where a record of a batch goes.
struct Place {
    reserved: Reserved,
    retention: Retention,
}

impl PageTier for DiskTier {
    fn name(&self) -> &str {
        "disk"
    }

    fn listed(&self) -> Option<Vec<PageKey>> {
        Some(self.lock().space.keys().collect())
    }

    fn contains_many(&self, keys: &[PageKey]) -> Result<Vec<bool>, TierError> {
        let state = self.lock();
        Ok(keys.iter().map(|key| state.space.contains(key)).collect())
    }

    fn get_many(&self, keys: &[PageKey], found: &mut FoundRecord<'_>) -> Result<(), TierError> {
        let mut held = Vec::new();
        {
            let mut state = self.lock();
            for (index, key) in keys.iter().enumerate() {
                held.extend(state.space.hold(key).map(|frame| (index, frame)));
            }
        }
        let found = Mutex::new(found);
        let faults = Mutex::new(Vec::new());
        let result = in_parallel(&held, THREADS, |&(index, frame)| {
            let fault = self.read(frame, &keys[index], |bytes| {
                (found.lock().expect("it has not panicked"))(index, bytes);
            });
            self.release(frame)?;
            let fault = fault?.map(|fault| (frame, fault));
            faults.lock().expect("nobody panics with it").extend(fault);
            Ok(())
        });
        self.log_dropped(&faults.into_inner().expect("nobody panics with it"));
        result
    }

    fn put_many(&self, records: &[TierRecord<'_>]) -> Result<Stored, TierError> {
        let now_ms = now_ms();
        let mut places = Vec::with_capacity(records.len());
        {
            let mut state = self.lock();
            if !state.others.is_empty() {
                let is_new = |record: &&TierRecord<'_>| !state.space.contains(&record.key);
                let new = records.iter().filter(is_new).count();
                self.delete_others(&mut state, new)?;
            }
            for record in records {
                let bytes = record.bytes.len();
                assert_eq!(bytes, self.config.record_bytes, "bytes of a record");
                let retention = on_the_clock(record.retention, now_ms);
                let reserved = state.space.reserve(&record.key, retention, now_ms);
                places.push(Place { reserved, retention });
            }
        }
        let kept = Mutex::new(vec![false; records.len()]);
        let numbered: Vec<_> = places.iter().enumerate().collect();
        in_parallel(&numbered, THREADS, |&(index, place)| {
            let is_kept = self.write(&records[index], place)?;
            kept.lock().expect("nobody panics with it")[index] = is_kept;
            Ok(())
        })?;
        let evicted = places.iter().filter_map(|place| match place.reserved {
            Reserved::Write { evicted, .. } => evicted,
            _ => None,
        });
        let evicted = evicted.collect();
        Ok(Stored { kept: kept.into_inner().expect("nobody panics with it"), evicted })
    }

    fn remove_many(&self, keys: &[PageKey]) -> Result<(), TierError> {
        let mut held = Vec::new();
        {
            let mut state = self.lock();
            for key in keys {
                let Some(frame) = state.space.hold(key) else { continue };
                state.space.forget(frame);
                held.push(frame);
            }
        }
        in_parallel(&held, 1, |&frame| {
            let cleared = self.directory.clear(frame);
            self.release(frame)?;
            cleared
        })
    }

    fn remove_prefix(&self, prefix: &[u8]) -> Result<usize, TierError> {
        let mut held = Vec::new();
        {
            let mut state = self.lock();
            let keys = state.space.keys().filter(|key| key.as_bytes().starts_with(prefix));
            for key in keys.collect::<Vec<_>>() {
                let Some(frame) = state.space.hold(&key) else { continue };
                state.space.forget(frame);
                held.push(frame);
            }
        }
        let nothing = vec![0; self.config.record_bytes];
        in_parallel(&held, THREADS, |&frame| {
            let erased =
                self.directory.clear(frame).and_then(|()| self.frames.write(frame, &nothing));
            self.release(frame)?;
            erased
        })?;
        self.sync_files()?;
        Ok(held.len())
    }

    /// The directory is whole then, too, whatever happened to its file meanwhile.
    fn sync(&self) -> Result<(), TierError> {
        let state = self.lock();
        self.directory.write_all(state.space.known())?;
        drop(state);
        self.sync_files()
    }

    fn usage(&self) -> TierUsage {
        let state = self.lock();
        TierUsage {
            used_bytes: Some(self.bytes_used(&state)),
            budget_bytes: Some(self.config.budget_bytes),
            records: Some(state.space.records()),
            damaged: state.damaged,
        }
    }
}

impl Drop for DiskTier {
    fn drop(&mut self) {
        if let Err(error) = self.sync() {
            tracing::warn!("pages may be lost: {error}");
        }
    }
}

fn frame_and_entry_bytes(record_bytes: usize) -> u64 {
    frame_bytes(record_bytes) as u64 + ENTRY_BYTES
}

/// Of the whole folder, with so many frames of its own.
fn bytes_used(
    config: &DiskTierConfig,
    others: &[OtherPages],
    reserved_bytes: u64,
    frames: usize,
) -> u64 {
    let others: u64 = others.iter().map(|other| other.bytes).sum();
    let own = ENTRY_BYTES + frames as u64 * frame_and_entry_bytes(config.record_bytes);
    (own + others).saturating_add(reserved_bytes)
}

/// How many frames the budget has room for beside all else.
fn frames_within(config: &DiskTierConfig, others: &[OtherPages], reserved_bytes: u64) -> usize {
    let room = config.budget_bytes.saturating_sub(bytes_used(config, others, reserved_bytes, 0));
    let frames = room / frame_and_entry_bytes(config.record_bytes);
    frames.min(u64::from(u32::MAX)) as usize
}

fn on_the_clock(retention: TierRetention, now_ms: u64) -> Retention {
    let expires_ms = retention.ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms));
    Retention { priority: retention.priority, expires_ms }
}

/// Milliseconds since 1970: what outlives the process cannot be on another clock.
fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
