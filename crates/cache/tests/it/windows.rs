//! Groups with a sliding window: pages behind it are let go, and a match needs those inside alone.

use terrace_cache::placement::{PlacementRule, Retention};
use terrace_cache::{BlockTable, FoundPage, KindId, KvSpace, PageKeys, TokenId};
use terrace_testkit::Rng;

use crate::kv_space::group;
use crate::page_key::seed;

struct Run {
    space: KvSpace,
    tables: Vec<BlockTable>,
    keys: Vec<PageKeys>,
    tokens: Vec<TokenId>,
}

impl Run {
    /// Computes `tokens` in steps of `step`; `watch` sees the tables in each.
    fn new(
        mut space: KvSpace,
        tokens: &[TokenId],
        step: usize,
        watch: impl Fn(&[BlockTable]),
    ) -> Run {
        let mut keys = space.new_keys(KindId::FIRST, "");
        let nothing = space.longest_match(KindId::FIRST, &keys, 0, |_| None);
        let mut tables = space
            .open(KindId::FIRST, &nothing, &vec![0; keys.len()], Retention::default())
            .expect("room");
        let mut computed = 0;
        while computed < tokens.len() {
            space.release_passed(KindId::FIRST, &mut tables, computed);
            let end = tokens.len().min(computed + step);
            space.grow(&mut tables, &vec![end; keys.len()]).expect("room");
            watch(&tables);
            computed = end;
            space.seal(&mut tables, &mut keys, &tokens[..computed], Retention::default());
            space.check(tables.iter().flat_map(BlockTable::held));
        }
        Run { space, tables, keys, tokens: tokens.to_vec() }
    }

    fn matched(&mut self, limit: usize) -> usize {
        self.keys.iter_mut().for_each(|keys| keys.extend(&self.tokens));
        self.space.longest_match(KindId::FIRST, &self.keys, limit, |_| None).tokens
    }
}

#[test]
fn a_long_sequence_holds_its_window_one_step_and_one_page() {
    let tokens: Vec<TokenId> = (0..32_768).map(|token| token % 97).collect();
    for (window, step, page_tokens) in [(4096, 512, 16), (4096, 1, 16), (4096, 333, 7), (5, 9, 4)] {
        let group = group(0, page_tokens, Some(window));
        let most = group.most_pages(tokens.len(), step);
        assert!(most * page_tokens <= window + step + 3 * page_tokens, "{most} pages");
        let space = KvSpace::new(&[group], most, seed(), PlacementRule::Lru);
        let run = Run::new(space, &tokens, step, |tables| {
            let held = tables[0].held().count();
            assert!(held <= (window + step).div_ceil(page_tokens) + 1, "{held} pages");
        });
        for position in tokens.len() - window..tokens.len() {
            run.tables[0].slot(position);
        }
        let Run { mut space, tables, .. } = run;
        space.release(tables);
        space.check([]);
    }
}

/// Also where the first pages of the windowed group are forgotten.
#[test]
fn a_match_needs_the_pages_of_the_window_alone() {
    let tokens: Vec<TokenId> = (0..64).collect();
    let groups = [group(0, 4, None), group(1, 4, Some(8))];
    let space = KvSpace::new(&groups, 16 + 4, seed(), PlacementRule::Lru);
    let mut run = Run::new(space, &tokens, 4, |_| {});
    assert_eq!(run.matched(64), 64);
    assert_eq!(run.matched(63), 60);
    // Of what lies far back the windowed group knows nothing any more.
    assert_eq!(run.matched(40), 0);
    let Run { mut space, tables, keys, .. } = run;
    let matched = space.longest_match(KindId::FIRST, &keys, 64, |_| None);
    let absent = |pages: &Vec<_>| pages.iter().filter(|page| **page == FoundPage::Passed).count();
    assert_eq!(matched.pages.iter().map(absent).collect::<Vec<_>>(), [0, 14]);
    let more =
        space.open(KindId::FIRST, &matched, &[64, 64], Retention::default()).expect("all is there");
    space.check(tables.iter().chain(&more).flat_map(BlockTable::held));
    space.release(tables);
    space.release(more);
}

/// Tables give slots back, and the next tokens never write a page that others hold or know.
#[test]
fn truncated_tables_write_no_page_that_others_see() {
    let mut rng = Rng::new(5);
    for _ in 0..200 {
        let tokens: Vec<TokenId> = (0..40).map(|_| rng.below(3) as TokenId).collect();
        let groups = [group(0, 1 + rng.below(5), None), group(1, 4, Some(6))];
        let space = KvSpace::new(&groups, 200, seed(), PlacementRule::Lru);
        let Run { mut space, mut tables, keys, .. } = Run::new(space, &tokens, 5, |_| {});
        let kept = 30 + rng.below(10);
        let fork = space.fork(&tables);
        space.truncate(&mut tables, kept);
        assert!(tables.iter().all(|table| table.len() == kept));
        space.check(tables.iter().chain(&fork).flat_map(BlockTable::held));
        let copies = space.grow(&mut tables, &[40, 40]).expect("room");
        for (table, other) in tables.iter().zip(&fork) {
            for position in kept..40 {
                assert_ne!(table.slot(position), other.slot(position), "{copies:?}");
            }
        }
        assert_eq!(space.longest_match(KindId::FIRST, &keys, 40, |_| None).tokens % 4, 0);
        space.release(tables);
        space.release(fork);
        space.check([]);
    }
}
