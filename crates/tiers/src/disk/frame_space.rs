//! Which record lies in which frame of the file, who reads or writes it, and who leaves next.
//!
//! Books alone, no bytes: all of it is decided under one lock that nobody holds while a file is
//! read or written. A frame is in one of three states:
//!
//! - free: no key, no holders;
//! - known: it has a key, which look-ups find, and any number of holders;
//! - leaving or coming: holders and no key. Its writer has not finished, or its record was
//!   removed while somebody read it. It is free when the last holder releases it.
//!
//! A frame with holders is never given to anybody else.

use std::collections::{BTreeSet, HashMap};

use terrace_cache::PageKey;
use terrace_cache::placement::{Placement, PlacementRule, Retention};

/// A place for one record in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId(pub u32);

impl FrameId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

pub struct FrameSpace {
    frames: Vec<Frame>,
    by_key: HashMap<PageKey, FrameId>,
    /// The lowest is taken first, which keeps the file short.
    free: BTreeSet<FrameId>,
    placement: Placement<FrameId>,
    /// Frames from here on are not given out.
    limit: usize,
    /// Of the newest record.
    sequence: u64,
}

#[derive(Clone, Copy)]
struct Frame {
    known: Option<Known>,
    holders: u32,
}

/// A record that look-ups find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub key: PageKey,
    /// Larger in records that were written later.
    pub sequence: u64,
    /// The claim that ends last; the directory has room for one.
    pub retention: Retention,
}

/// Where a record can go. The caller is a holder of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It is there already, and may be claimed for longer now.
    Present { frame: FrameId, known: Known, raised: bool },
    /// To be written here. What the directory says of an evicted record must be cleared first.
    Write { frame: FrameId, evicted: Option<PageKey> },
    /// All that is there is worth more, or in use.
    NoRoom,
}

impl FrameSpace {
    /// `frames` is what a directory has, `limit` what there may be.
    pub fn new(rule: PlacementRule, frames: Vec<Option<Known>>, limit: usize) -> Self {
        let mut space = FrameSpace {
            frames: vec![Frame { known: None, holders: 0 }; frames.len()],
            by_key: HashMap::new(),
            free: BTreeSet::new(),
            placement: Placement::new(rule, limit.max(1)),
            limit: usize::MAX,
            sequence: 0,
        };
        let frames = frames.into_iter().enumerate();
        let mut frames: Vec<_> = frames.map(|(index, known)| (known, frame_id(index))).collect();
        frames.sort_by_key(|(known, _)| known.map_or(0, |known| known.sequence));
        for (known, frame) in frames {
            match known {
                Some(known) => {
                    space.sequence = known.sequence;
                    if let Some(&older) = space.by_key.get(&known.key) {
                        space.forget(older);
                    }
                    space.frames[frame.index()].known = Some(known);
                    space.by_key.insert(known.key, frame);
                    space.placement.add(frame, content(&known.key), known.retention);
                }
                None => {
                    space.free.insert(frame);
                }
            }
        }
        space.set_limit(limit);
        space
    }

    pub fn frames(&self) -> usize {
        self.frames.len()
    }

    pub fn records(&self) -> usize {
        self.by_key.len()
    }

    pub fn keys(&self) -> impl Iterator<Item = PageKey> {
        self.by_key.keys().copied()
    }

    /// Of each frame.
    pub fn known(&self) -> impl Iterator<Item = Option<&Known>> {
        self.frames.iter().map(|frame| frame.known.as_ref())
    }

    pub fn contains(&self, key: &PageKey) -> bool {
        self.by_key.contains_key(key)
    }

    /// Frames that can be had without evicting anybody.
    pub fn room(&self) -> usize {
        let free = self.free.range(..frame_id(self.limit)).count();
        free + self.limit.saturating_sub(self.frames.len())
    }

    /// A frame for a record, which the caller holds from now on.
    pub fn reserve(&mut self, key: &PageKey, retention: Retention, now_ms: u64) -> Reserved {
        if let Some(frame) = self.hold(key) {
            let known = self.frames[frame.index()].known.as_mut().expect("found by its key");
            let before = known.retention;
            self.placement.retain(frame, retention);
            known.retention = self.placement.claims(frame).longest();
            let known = *known;
            return Reserved::Present { frame, known, raised: known.retention != before };
        }
        if let Some(&frame) = self.free.first().filter(|frame| frame.index() < self.limit) {
            self.free.remove(&frame);
            self.frames[frame.index()].holders = 1;
            return Reserved::Write { frame, evicted: None };
        }
        if self.frames.len() < self.limit {
            self.frames.push(Frame { known: None, holders: 1 });
            return Reserved::Write { frame: frame_id(self.frames.len() - 1), evicted: None };
        }
        if !self.placement.admits(content(key), retention, now_ms) {
            return Reserved::NoRoom;
        }
        let Some(frame) = self.placement.victim(now_ms) else { return Reserved::NoRoom };
        self.frames[frame.index()].holders = 1;
        let evicted = self.forget(frame);
        Reserved::Write { frame, evicted }
    }

    /// The record in a frame that was reserved is complete: look-ups find it from now on. `None`
    /// if another has written the same record meanwhile. The caller still holds the frame.
    pub fn written(&mut self, frame: FrameId, key: PageKey, retention: Retention) -> Option<Known> {
        if self.by_key.contains_key(&key) || frame.index() >= self.limit {
            return None;
        }
        self.sequence += 1;
        let known = Known { key, sequence: self.sequence, retention };
        self.frames[frame.index()].known = Some(known);
        self.by_key.insert(known.key, frame);
        self.placement.add_held(frame, content(&known.key), known.retention);
        Some(known)
    }

    /// The frame of a record, which the caller holds from now on.
    pub fn hold(&mut self, key: &PageKey) -> Option<FrameId> {
        let frame = *self.by_key.get(key)?;
        let held = &mut self.frames[frame.index()];
        if held.holders == 0 {
            self.placement.hold(frame);
        }
        held.holders += 1;
        Some(frame)
    }

    pub fn release(&mut self, frame: FrameId) {
        let held = &mut self.frames[frame.index()];
        assert!(held.holders > 0, "frame {} has no holder", frame.0);
        held.holders -= 1;
        match (held.holders, held.known) {
            (0, Some(_)) => self.placement.release(frame),
            (0, None) => {
                self.free.insert(frame);
            }
            _ => {}
        }
    }

    /// Look-ups find the record no more; its frame is free when all who hold it have released it.
    pub fn forget(&mut self, frame: FrameId) -> Option<PageKey> {
        let held = &mut self.frames[frame.index()];
        let known = held.known.take()?;
        if held.holders == 0 {
            self.free.insert(frame);
        }
        self.by_key.remove(&known.key);
        self.placement.remove(frame);
        Some(known.key)
    }

    /// From now on there are at most `limit` frames; records behind it are forgotten. Frames
    /// that are in use stay until [`trim`](Self::trim) finds them free.
    pub fn set_limit(&mut self, limit: usize) -> Vec<PageKey> {
        self.limit = limit;
        (limit..self.frames.len()).filter_map(|index| self.forget(frame_id(index))).collect()
    }

    /// Drops free frames at the end that are over the limit. Says whether there were any.
    pub fn trim(&mut self) -> bool {
        let before = self.frames.len();
        while self.frames.len() > self.limit && self.free.remove(&frame_id(self.frames.len() - 1)) {
            self.frames.pop();
        }
        self.frames.len() < before
    }

    /// Panics where the books disagree.
    pub fn check(&self) {
        for (index, frame) in self.frames.iter().enumerate() {
            let id = frame_id(index);
            let is_free = frame.known.is_none() && frame.holders == 0;
            assert_eq!(self.free.contains(&id), is_free, "frame {index}");
            if let Some(known) = frame.known {
                assert_eq!(self.by_key.get(&known.key), Some(&id), "frame {index}");
                assert!(index < self.limit, "frame {index} of {}", self.limit);
            }
        }
        self.placement.check();
        assert_eq!(self.placement.len(), self.by_key.len(), "entries that may leave");
        let known = self.frames.iter().filter(|frame| frame.known.is_some()).count();
        assert_eq!(known, self.by_key.len(), "keys");
        assert!(self.free.last().is_none_or(|last| last.index() < self.frames.len()), "free");
    }
}

fn frame_id(index: usize) -> FrameId {
    FrameId(u32::try_from(index).unwrap_or(u32::MAX))
}

fn content(key: &PageKey) -> u64 {
    u64::from_le_bytes(key.as_bytes()[..8].try_into().expect("8 of 32 bytes"))
}

#[cfg(test)]
mod tests;
