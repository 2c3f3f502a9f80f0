//! Tables against lists of what each token's slot should hold.

use std::collections::HashMap;

use terrace_cache::placement::PlacementRule;
use terrace_cache::{BlockTable, OutOfPages, PageCopy, PageId, PagePool, SlotId};

use terrace_testkit::Rng;

/// A table, and what was written for each of its tokens.
struct Tracked {
    table: BlockTable,
    tokens: Vec<u64>,
}

struct Fixture {
    pool: PagePool,
    page_tokens: usize,
    memory: HashMap<SlotId, u64>,
    tables: Vec<Tracked>,
    next_token: u64,
}

impl Fixture {
    fn append(&mut self, index: usize, tokens: usize) {
        let Tracked { table, tokens: written } = &mut self.tables[index];
        let wanted = table.pages_wanted(tokens, &self.pool);
        let free = self.pool.free();
        match table.append_slots(tokens, &mut self.pool) {
            Ok(copy) => {
                assert_eq!(free - self.pool.free(), wanted);
                if let Some(PageCopy { from, to }) = copy {
                    for offset in 0..self.page_tokens {
                        let value = self.memory.get(&from.slot(offset, self.page_tokens)).copied();
                        self.memory.extend(value.map(|v| (to.slot(offset, self.page_tokens), v)));
                    }
                }
                for _ in 0..tokens {
                    self.next_token += 1;
                    self.memory.insert(table.slot(written.len()), self.next_token);
                    written.push(self.next_token);
                }
            }
            Err(error) => {
                assert_eq!(error, OutOfPages { wanted, free });
                assert!(free < wanted, "refused with {free} of {wanted} pages");
                assert_eq!(self.pool.free(), free, "a refusal takes nothing");
            }
        }
    }

    fn fork(&mut self, index: usize) {
        let Tracked { table, tokens } = &self.tables[index];
        let fork = Tracked { table: table.fork(&mut self.pool), tokens: tokens.clone() };
        self.tables.push(fork);
    }

    fn release(&mut self, index: usize) {
        self.tables.swap_remove(index).table.release_all(&mut self.pool);
    }

    fn check(&self) {
        self.pool.check();
        for page in (0..self.pool.total() as u32).map(PageId) {
            let holders =
                self.tables.iter().filter(|t| t.table.held().any(|held| held == page)).count();
            assert_eq!(self.pool.holders(page), holders as u32, "{page:?}");
        }
        for Tracked { table, tokens } in &self.tables {
            assert_eq!(table.len(), tokens.len());
            assert_eq!(table.pages().len(), tokens.len().div_ceil(self.page_tokens));
            for (position, token) in tokens.iter().enumerate() {
                assert_eq!(self.memory[&table.slot(position)], *token, "position {position}");
            }
        }
    }
}

fn random_history(page_tokens: usize, seed: u64) {
    let mut rng = Rng::new(seed);
    let pool = PagePool::new(2 + rng.below(20), PlacementRule::Lru);
    let mut fixture =
        Fixture { pool, page_tokens, memory: HashMap::new(), tables: Vec::new(), next_token: 0 };
    for _ in 0..200 {
        let index = rng.below(fixture.tables.len().max(1));
        match rng.below(7) {
            0 => fixture
                .tables
                .push(Tracked { table: BlockTable::new(page_tokens), tokens: Vec::new() }),
            _ if fixture.tables.is_empty() => {}
            1 if fixture.tables.len() < 6 => fixture.fork(index),
            2 => fixture.release(index),
            _ => fixture.append(index, rng.below(2 * page_tokens + 2)),
        }
        fixture.check();
    }
    while !fixture.tables.is_empty() {
        fixture.release(0);
    }
    assert_eq!(fixture.pool.free(), fixture.pool.total());
}

#[test]
fn random_histories_keep_every_token_in_its_slot() {
    for page_tokens in [1, 2, 3, 16] {
        (0..100).for_each(|seed| random_history(page_tokens, seed));
    }
}

#[test]
fn only_the_last_holder_of_an_open_page_writes_in_place() {
    let mut pool = PagePool::new(8, PlacementRule::Lru);
    let mut first = BlockTable::new(4);
    assert_eq!(first.append_slots(6, &mut pool), Ok(None));
    let mut second = first.fork(&mut pool);
    let shared = first.pages()[1].expect("present");
    let copy = first.append_slots(1, &mut pool).unwrap();
    assert_eq!(copy, Some(PageCopy { from: shared, to: first.pages()[1].expect("present") }));
    assert_eq!(second.append_slots(1, &mut pool), Ok(None));
    assert_eq!(second.pages(), [first.pages()[0], Some(shared)]);
    first.release_all(&mut pool);
    second.release_all(&mut pool);
    assert_eq!(pool.free(), 8);
}

#[test]
fn a_full_shared_page_needs_no_copy() {
    let mut pool = PagePool::new(4, PlacementRule::Lru);
    let mut first = BlockTable::new(4);
    first.append_slots(4, &mut pool).unwrap();
    let mut second = first.fork(&mut pool);
    assert_eq!(first.append_slots(1, &mut pool), Ok(None));
    assert_eq!(second.append_slots(1, &mut pool), Ok(None));
    assert_eq!(first.pages()[0], second.pages()[0]);
    assert_ne!(first.pages()[1], second.pages()[1]);
    first.release_all(&mut pool);
    second.release_all(&mut pool);
}

#[test]
fn a_slot_is_page_times_page_tokens_plus_offset() {
    let mut pool = PagePool::new(4, PlacementRule::Lru);
    let mut table = BlockTable::new(3);
    table.append_slots(5, &mut pool).unwrap();
    let slots: Vec<_> = (0..5).map(|position| table.slot(position)).collect();
    assert_eq!(slots, [0, 1, 2, 3, 4].map(SlotId));
    table.release_all(&mut pool);
}

#[test]
#[should_panic(expected = "a block table was dropped with 1 pages")]
fn a_table_must_be_released_before_it_is_dropped() {
    let mut table = BlockTable::new(16);
    table.append_slots(1, &mut PagePool::new(1, PlacementRule::Lru)).unwrap();
}
