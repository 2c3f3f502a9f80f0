//! The pool against lists of who holds what.

use terrace_cache::placement::{PlacementRule, Retention};
use terrace_cache::{PageId, PagePool};

use terrace_testkit::Rng;

/// Who holds what, written down without cleverness.
#[derive(Default)]
struct Model {
    /// One entry for each table that holds a page.
    held: Vec<PageId>,
    kept: Vec<PageId>,
    /// Oldest first.
    idle: Vec<PageId>,
}

impl Model {
    fn holders(&self, page: PageId) -> u32 {
        let held = self.held.iter().filter(|held| **held == page).count();
        (held + usize::from(self.kept.contains(&page))) as u32
    }

    fn used(&self) -> usize {
        let mut pages: Vec<_> = self.held.iter().chain(&self.kept).collect();
        pages.sort();
        pages.dedup();
        pages.len()
    }
}

fn check(pool: &mut PagePool, model: &Model) {
    pool.check();
    assert_eq!(pool.free(), pool.total() - model.used());
    assert_eq!(pool.idle(), model.idle.len());
    assert_eq!(pool.to_go(0, 1).first(), model.idle.first());
    for page in (0..pool.total() as u32).map(PageId) {
        assert_eq!(pool.holders(page), model.holders(page), "{page:?}");
    }
}

fn random_history(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut pool = PagePool::new(1 + rng.below(12), PlacementRule::Lru);
    let mut model = Model::default();
    for _ in 0..300 {
        match rng.below(6) {
            0 | 1 => match pool.take() {
                Some(page) => {
                    assert_eq!(model.holders(page), 0, "{page:?} was handed out twice");
                    model.held.push(page);
                }
                None => assert_eq!(model.used(), pool.total()),
            },
            2 if 0 < model.used() => {
                let page = *rng.pick(&[&model.held[..], &model.kept[..]].concat());
                pool.share(page);
                model.held.push(page);
                model.idle.retain(|idle| *idle != page);
            }
            3 if !model.held.is_empty() => {
                let page = model.held.swap_remove(rng.below(model.held.len()));
                pool.release(page);
                if model.kept.contains(&page) && !model.held.contains(&page) {
                    model.idle.push(page);
                }
            }
            4 if !model.held.is_empty() => {
                let page = *rng.pick(&model.held);
                if !model.kept.contains(&page) {
                    pool.keep(page, 0, Retention::default());
                    model.kept.push(page);
                }
            }
            5 if !model.idle.is_empty() => {
                let page = model.idle.remove(rng.below(model.idle.len()));
                pool.forget(page);
                model.kept.retain(|kept| *kept != page);
            }
            _ => {}
        }
        check(&mut pool, &model);
    }
}

#[test]
fn random_histories_agree_with_the_model() {
    (0..300).for_each(random_history);
}

#[test]
fn the_lowest_pages_are_taken_first() {
    let mut pool = PagePool::<PageId>::new(3, PlacementRule::Lru);
    let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(taken, [PageId(0), PageId(1), PageId(2)]);
}

#[test]
fn shuffled_pages_are_the_same_pages_in_another_order() {
    let take_all = |seed| {
        let mut pool = PagePool::<PageId>::new(64, PlacementRule::Lru);
        let held = pool.take().expect("a new pool has free pages");
        pool.shuffle_free(seed);
        pool.check();
        let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert!(!taken.contains(&held), "a page that was held is handed out");
        taken
    };
    let taken = take_all(1);
    let mut sorted = taken.clone();
    sorted.sort();
    assert_eq!(sorted, (1..64).map(PageId).collect::<Vec<_>>());
    let neighbours = taken.windows(2).filter(|pair| pair[0].0 + 1 == pair[1].0).count();
    assert!(neighbours < 8, "{neighbours} of 62 pages still follow their neighbour: {taken:?}");
    assert_eq!(take_all(1), taken, "a seed gives one order");
    assert_ne!(take_all(2), taken);
}

/// A pool with its only page taken.
fn full_pool() -> (PagePool, PageId) {
    let mut pool = PagePool::new(1, PlacementRule::Lru);
    let page = pool.take().expect("a new pool has free pages");
    (pool, page)
}

#[test]
#[should_panic(expected = "page 0 released twice")]
fn a_page_cannot_be_released_twice() {
    let (mut pool, page) = full_pool();
    pool.release(page);
    pool.release(page);
}

#[test]
#[should_panic(expected = "page 0 released twice")]
fn a_table_cannot_release_what_the_index_keeps() {
    let (mut pool, page) = full_pool();
    pool.keep(page, 0, Retention::default());
    pool.release(page);
    pool.release(page);
}

#[test]
#[should_panic(expected = "page 0 is shared but free")]
fn a_free_page_cannot_be_shared() {
    PagePool::new(1, PlacementRule::Lru).share(PageId(0));
}

#[test]
#[should_panic(expected = "page 0 is not idle")]
fn a_page_in_use_cannot_be_forgotten() {
    let (mut pool, page) = full_pool();
    pool.keep(page, 0, Retention::default());
    pool.forget(page);
}
