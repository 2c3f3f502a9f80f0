//! Lives of engines whose requests are saved by name, loaded, pinned, removed, lost and damaged,
//! through restarts, in pools and stores that are nearly always too small.
//!
//! The simulated device panics when a slot does not hold what its sequence needs; so a page that
//! was saved too early, loaded into the wrong place or given away while it is read ends there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use terrace_engine::{
    Engine, EngineConfig, Error, Events, Failure, FinishReason, HandleId, KeepAs, KeptHandle, Past,
    PastFile, PastTable, Request, RequestId, TokenEvent, TokenId,
};
use terrace_testkit::Rng;
use terrace_tiers::{
    HandleDone, HandleError, HandleExecutor, HandleFault, HandleManifest, HandleTask, HandleWork,
    TableManifest, Wait, Wake,
};

use crate::simulation_executor::{Behaviour, Failures, Log, SimulatedExecutor};
use crate::simulation_load::{
    Group, expected_events, random_cache, random_config, random_request, random_tiers, sampling_mut,
};
use crate::simulation_memory::{Memory, PageContent};
use crate::simulation_work::SlowWork;

/// Outlives engines.
type Files = Arc<Mutex<BTreeMap<HandleId, File>>>;

#[derive(Clone)]
struct File {
    manifest: HandleManifest,
    pages: Vec<PageContent>,
    is_damaged: bool,
}

struct SimulatedHandles {
    memory: Arc<Mutex<Memory>>,
    files: Files,
    under_way: SlowWork<HandleWork>,
    rng: Rng,
}

/// Work is done at the latest when it is asked for so often.
const LONGEST_WORK: usize = 12;
/// Far more than all that is left takes.
const MOST_LAST_STEPS: usize = 50_000;

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().expect("nobody has panicked")
}

impl SimulatedHandles {
    fn carry_out(&mut self, work: HandleWork) -> HandleDone {
        let (mut memory, mut files) = (lock(&self.memory), lock(&self.files));
        let result = match work.task {
            HandleTask::Save { .. } if self.rng.below(20) == 0 => {
                Err(HandleError::NoRoom { bytes: 1, used_bytes: 1, budget_bytes: 1 })
            }
            HandleTask::Save { manifest, pages } => {
                manifest.check().expect("a sound manifest");
                assert_eq!(manifest.pages() as usize, pages.len());
                let pages = pages.iter().map(|page| memory.stored(*page).clone()).collect();
                let file = File { manifest: *manifest, pages, is_damaged: false };
                files.insert(file.manifest.id, file);
                Ok(None)
            }
            HandleTask::Load { handle, pages } => match files.get(&handle) {
                None => Err(HandleError::Unknown(handle)),
                Some(file) if file.is_damaged => {
                    let fault = HandleFault::DamagedPage(0);
                    Err(HandleError::Damaged { id: handle, fault })
                }
                Some(file) => {
                    assert_eq!(file.pages.len(), pages.len());
                    for (page, content) in pages.iter().zip(&file.pages) {
                        memory.fill_stored(*page, content.clone());
                    }
                    Ok(None)
                }
            },
        };
        HandleDone { id: work.id, result }
    }
}

impl HandleExecutor for SimulatedHandles {
    fn start(&mut self, work: HandleWork) {
        if let HandleTask::Load { pages, .. } = &work.task {
            let mut memory = lock(&self.memory);
            pages.iter().for_each(|page| memory.fill_stored(*page, PageContent::default()));
        }
        self.under_way.push(work, &mut self.rng);
    }

    fn done(&mut self, wait: Wait) -> Vec<HandleDone> {
        let done = self.under_way.take_done(wait, &mut self.rng);
        done.into_iter().map(|work| self.carry_out(work)).collect()
    }

    fn wake_by(&mut self, _: Wake) {}
}

/// What happened; zeros would mean that the test tests nothing.
#[derive(Default, Debug)]
struct Totals {
    saved: usize,
    not_saved: usize,
    no_room_to_save: usize,
    continued: usize,
    pinned: usize,
    over_budget: usize,
    finished: usize,
    damaged: usize,
    no_room: usize,
    cached_tokens: usize,
}

struct Life {
    rng: Rng,
    engine: Engine,
    config: EngineConfig,
    files: Files,
    /// What can be gone on from, in this life and the next.
    pasts: BTreeMap<HandleId, Arc<Past>>,
    live: BTreeMap<RequestId, (Request, Vec<TokenId>)>,
    longest: usize,
    now_ms: u64,
}

impl Life {
    fn new(
        seed: u64,
        groups: &[Group],
        longest: usize,
        files: &Files,
        pasts: BTreeMap<HandleId, Arc<Past>>,
    ) -> Self {
        let mut rng = Rng::new(seed);
        let config = random_config(&mut rng, groups, longest);
        let config = random_tiers(&mut rng, config, &[]);
        let failures = if rng.below(4) == 0 { Failures::OneIn(100) } else { Failures::Never };
        let behaviour = Behaviour { max_under_way: 1 + rng.below(2), failures, seed };
        let executor = SimulatedExecutor::new(&config, behaviour, Log::default());
        let handles = SimulatedHandles {
            memory: executor.shared_memory(),
            files: Arc::clone(files),
            under_way: SlowWork::new(LONGEST_WORK),
            rng: Rng::new(seed ^ 3),
        };
        let engine = Engine::new(Box::new(executor), config.clone()).expect("a valid config");
        let engine = engine.with_handles(Box::new(handles));
        let (files, live) = (Arc::clone(files), BTreeMap::new());
        Life { rng, engine, config, files, pasts, live, longest, now_ms: 0 }
    }

    fn submit(&mut self) {
        let mut request = random_request(&mut self.rng, self.longest, 3);
        if self.rng.below(3) == 0 {
            let groups = &self.config.kv_groups;
            request.cache = Some(random_cache(&mut self.rng, groups, request.prompt.len()));
        }
        let Ok(id) = self.engine.submit(request.clone()) else { return };
        let is_alone = request.choices() == 1;
        self.live.insert(id, (request, Vec::new()));
        if is_alone && self.rng.below(2) == 0 {
            let name = self.new_name();
            let manifest = (self.rng.below(5) != 0).then(|| Box::new(manifest(name)));
            let keep = KeepAs { id: name, manifest, pin: self.rng.below(4) == 0 };
            self.engine.keep_as(id, keep).expect("it is live");
        }
    }

    fn new_name(&mut self) -> HandleId {
        let mut bytes = [0; 16];
        bytes.iter_mut().for_each(|byte| *byte = self.rng.below(256) as u8);
        HandleId(bytes)
    }

    fn draw(&mut self) -> Option<Arc<Past>> {
        let pasts: Vec<_> = self.pasts.values().cloned().collect();
        (!pasts.is_empty()).then(|| Arc::clone(self.rng.pick(&pasts)))
    }

    fn go_on(&mut self, totals: &mut Totals) {
        let Some(past) = self.draw() else { return };
        let mut request = random_request(&mut self.rng, self.longest, 2);
        let room = self.longest.saturating_sub(past.tokens.len());
        request.prompt.truncate(room.max(1));
        let new = room.saturating_sub(request.prompt.len());
        let sampling = sampling_mut(&mut request);
        sampling.max_new_tokens = sampling.max_new_tokens.min(new);
        if let Ok(id) = self.engine.continue_past(Arc::clone(&past), request.clone()) {
            let whole = past.extend(request).expect("it was taken");
            self.live.insert(id, (whole, Vec::new()));
            totals.continued += 1;
        }
    }

    /// Pins, unpins, removes, loses or damages one.
    fn change_one(&mut self) {
        let Some(past) = self.draw() else { return };
        let id = past.id.expect("it has a name");
        match self.rng.below(6) {
            0 | 1 => self.engine.pin(id, past),
            2 => self.engine.unpin(id),
            3 => {
                lock(&self.files).remove(&id);
                self.engine.release_named(id);
                self.pasts.remove(&id);
            }
            4 => drop(lock(&self.files).remove(&id)),
            _ => {
                if let Some(file) = lock(&self.files).get_mut(&id) {
                    file.is_damaged = true;
                }
            }
        }
    }

    fn step(&mut self, totals: &mut Totals) {
        self.now_ms += 1;
        let events = self.engine.step_at(self.now_ms);
        self.engine.check();
        self.take(events, totals);
        for (id, result) in self.engine.handle_results() {
            match result {
                Ok(kept) => self.kept(id, kept, totals),
                Err(Error::PinBudget { .. }) => totals.over_budget += 1,
                Err(Error::NoHostRoom { .. }) => totals.no_room_to_save += 1,
                Err(_) => totals.not_saved += 1,
            }
        }
        assert!(self.engine.resident_handles().len() <= 4096);
    }

    fn kept(&mut self, id: HandleId, kept: KeptHandle, totals: &mut Totals) {
        let past = match lock(&self.files).get(&id) {
            Some(file) => Past { file: Some(past_file(&file.manifest)), ..(*kept.past).clone() },
            None => (*kept.past).clone(),
        };
        if past.file.is_some() {
            totals.saved += 1;
        }
        totals.pinned += 1;
        self.pasts.insert(id, Arc::new(past));
    }

    fn take(&mut self, events: Events, totals: &mut Totals) {
        for (id, event) in events {
            let Some((request, tokens)) = self.live.get_mut(&id) else { continue };
            match event {
                TokenEvent::Token { choice: 0, id: token, .. } => tokens.push(token),
                TokenEvent::CachedPrompt { tokens } => totals.cached_tokens += tokens,
                TokenEvent::Finished { choice: 0, reason } => {
                    let expected: Vec<TokenId> = expected_events(request, 0)
                        .into_iter()
                        .filter_map(|event| match event {
                            TokenEvent::Token { id, .. } => Some(id),
                            _ => None,
                        })
                        .collect();
                    assert_eq!(tokens[..], expected[..tokens.len()], "{id:?}");
                    match reason {
                        FinishReason::Failed(Failure::BadHandle) => totals.damaged += 1,
                        FinishReason::Failed(Failure::NoRoomForHandle) => totals.no_room += 1,
                        FinishReason::Stop(_) | FinishReason::Length => {
                            assert_eq!(*tokens, expected, "{id:?}");
                            totals.finished += 1;
                        }
                        _ => {}
                    }
                    self.live.remove(&id);
                }
                _ => {}
            }
        }
    }

    /// What the next life can go on from: files.
    fn live(mut self, totals: &mut Totals) -> BTreeMap<HandleId, Arc<Past>> {
        for _ in 0..600 {
            match self.rng.below(12) {
                0 | 1 => self.submit(),
                2 => self.go_on(totals),
                3 if self.rng.below(4) == 0 => self.change_one(),
                4 if self.rng.below(4) == 0 => {
                    let live: Vec<_> = self.live.keys().copied().collect();
                    if !live.is_empty() {
                        let id = *self.rng.pick(&live);
                        let events = self.engine.cancel(id);
                        self.engine.check();
                        self.take(events, totals);
                    }
                }
                _ => {}
            }
            self.step(totals);
        }
        let mut steps = 0;
        while !self.engine.is_idle() {
            self.step(totals);
            steps += 1;
            assert!(steps < MOST_LAST_STEPS, "it goes on for ever: {:?}", self.engine.stats());
        }
        assert!(self.live.is_empty(), "a request was left without its last event");
        for id in self.pasts.keys().copied().collect::<Vec<_>>() {
            self.engine.release_named(id);
        }
        // Of those whose save failed the name is known to the engine alone.
        for id in self.engine.resident_handles() {
            self.engine.release_named(id);
        }
        self.engine.check();
        let stats = self.engine.stats();
        assert_eq!(stats.pages_free, stats.pages_total, "a page leaked");
        assert_eq!(stats.store_pages_free, stats.store_pages_total, "a page of the store leaked");
        let has_file = |past: &Arc<Past>| past.file.is_some();
        self.pasts.into_iter().filter(|(_, past)| has_file(past)).collect()
    }
}

fn past_file(manifest: &HandleManifest) -> PastFile {
    let table = |table: &TableManifest| {
        let (page_tokens, len) = (table.page_tokens as usize, table.len as usize);
        let passed = len.div_ceil(page_tokens) - table.pages.len();
        PastTable { page_tokens, len, passed }
    };
    let tables = manifest.tables.iter().map(table).collect();
    PastFile { computed: manifest.computed as usize, tables }
}

/// Of which the engine fills in what it holds.
fn manifest(id: HandleId) -> HandleManifest {
    HandleManifest {
        id,
        name: "one".into(),
        owner: None,
        created_unix_ms: 0,
        expires_unix_ms: None,
        is_pinned: false,
        is_imported: false,
        model: [0; 32],
        arithmetic: Vec::new(),
        page_bytes: 1,
        tokens: Vec::new(),
        computed: 0,
        row_kind_ends: Vec::new(),
        scaled_end: None,
        cache_salt: String::new(),
        kv_cache: None,
        chunk_ends: Vec::new(),
        tables: Vec::new(),
    }
}

fn simulate(groups: &[Group], longest: usize) {
    let mut totals = Totals::default();
    for seed in 0..25 {
        let (files, mut pasts) = (Files::default(), BTreeMap::new());
        for restart in 0..3 {
            let seed = 1000 * restart + seed;
            println!("seed {seed}");
            let kept = std::mem::take(&mut pasts);
            pasts = Life::new(seed, groups, longest, &files, kept).live(&mut totals);
        }
    }
    println!("{groups:?}: {totals:?}");
    let Totals { saved, not_saved, continued, pinned, over_budget, .. } = totals;
    let Totals { finished, damaged, no_room, cached_tokens, .. } = totals;
    let happened = [saved, not_saved, continued, pinned, over_budget, finished, cached_tokens];
    assert!(happened.iter().all(|count| 20 < *count), "{totals:?}");
    assert!(0 < damaged && 0 < no_room, "{totals:?}");
}

#[test]
fn handles_with_pages_of_four_tokens() {
    simulate(&[Group::of(4)], 48);
}

#[test]
fn handles_with_two_groups() {
    simulate(&[Group::of(2), Group::of(5)], 40);
}

#[test]
fn handles_behind_a_window() {
    simulate(&[Group::of(4), Group { page_tokens: 3, window: Some(7) }], 40);
}
