//! Many sequences in one space: content is shared, copied and forgotten as the model says.

use std::collections::HashMap;

use terrace_cache::placement::{PlacementRule, Retention};
use terrace_cache::{BlockTable, KindId, KvGroup, KvSpace, OutOfPages, PageId, PageKeys, TokenId};
use terrace_device::DType;
use terrace_kernels::{KvLayout, PageLayout};

use crate::page_key::seed;
use crate::space_model::{Content, SpaceModel};
use terrace_testkit::Rng;

/// One layer that keeps every token, or those in its window.
pub fn group(layer: usize, page_tokens: usize, window: Option<usize>) -> KvGroup {
    let layout = PageLayout {
        layers: 1,
        kv_heads: 1,
        page_tokens,
        key_dim: 1,
        value_dim: 1,
        dtype: DType::F32,
    };
    KvGroup { layers: vec![layer], layout: KvLayout::Dense(layout), window }
}

fn space(page_tokens: &[usize], pages: usize) -> KvSpace {
    let groups = page_tokens.iter().enumerate().map(|(layer, &tokens)| group(layer, tokens, None));
    KvSpace::new(&groups.collect::<Vec<_>>(), pages, seed(), PlacementRule::Lru)
}

struct Seq {
    salt: String,
    tokens: Vec<TokenId>,
    computed: usize,
    tables: Vec<BlockTable>,
    keys: Vec<PageKeys>,
}

/// What each page holds: its group, and for each slot the prefix it was computed from.
type Memory = HashMap<PageId, (usize, Vec<Option<Vec<TokenId>>>)>;

struct Fixture {
    space: KvSpace,
    page_tokens: Vec<usize>,
    model: SpaceModel,
    memory: Memory,
    seqs: Vec<Seq>,
}

impl Fixture {
    /// A space of so many pages, with a group for each number of tokens of a page.
    fn new(page_tokens: &[usize], pages: usize) -> Self {
        Fixture {
            space: space(page_tokens, pages),
            page_tokens: page_tokens.to_vec(),
            model: SpaceModel::default(),
            memory: Memory::new(),
            seqs: Vec::new(),
        }
    }

    fn content(&self, seq: &Seq, group: usize, page: usize) -> Content {
        let end = (page + 1) * self.page_tokens[group];
        (group, seq.salt.clone(), seq.tokens[..end].to_vec())
    }

    /// Content of the seq's full pages among the first `tokens`, group by group.
    fn contents(&self, seq: &Seq, group: usize, tokens: usize) -> Vec<Content> {
        (0..tokens / self.page_tokens[group]).map(|page| self.content(seq, group, page)).collect()
    }

    fn free(&self) -> usize {
        self.space.available() - self.space.idle()
    }

    fn open(&mut self, salt: String, tokens: Vec<TokenId>) {
        let mut keys = self.space.new_keys(KindId::FIRST, &salt);
        keys.iter_mut().for_each(|keys| keys.extend(&tokens));
        let mut seq = Seq { salt, tokens, computed: 0, tables: Vec::new(), keys };
        let len = seq.tokens.len();
        let matched = self.space.longest_match(KindId::FIRST, &seq.keys, len - 1, |_| None);
        assert_eq!(matched.tokens, self.expected_match(&seq), "match of {:?}", seq.tokens);
        let slots = vec![len; seq.keys.len()];
        let cost = self.space.cost_to_open(KindId::FIRST, &matched, &slots);
        let (available, free) = (self.space.available(), self.free());
        match self.space.open(KindId::FIRST, &matched, &slots, Retention::default()) {
            Ok(tables) => {
                assert_eq!(self.space.available(), available - cost);
                let mut fresh = 0;
                for (group, table) in tables.iter().enumerate() {
                    for content in self.contents(&seq, group, matched.tokens) {
                        self.model.hold(content);
                    }
                    fresh += table.pages().len() - table.sealed_pages();
                }
                self.model.forget_oldest(fresh.saturating_sub(free));
                (seq.tables, seq.computed) = (tables, matched.tokens);
                self.seqs.push(seq);
            }
            Err(error) => {
                assert_eq!(error, OutOfPages { wanted: cost, free: available });
                assert!(available < cost);
            }
        }
    }

    /// The longest match that ends with a page in every group, tried from the longest down.
    fn expected_match(&self, seq: &Seq) -> usize {
        let is_known = |tokens: usize| {
            (0..self.page_tokens.len()).all(|group| {
                tokens.is_multiple_of(self.page_tokens[group])
                    && self.contents(seq, group, tokens).iter().all(|c| self.model.knows(c))
            })
        };
        (0..seq.tokens.len()).rev().find(|&tokens| is_known(tokens)).expect("0 is known")
    }

    /// Computes `tokens` more tokens of the sequence and seals what they fill.
    fn compute(&mut self, index: usize, tokens: usize) {
        let seq = &mut self.seqs[index];
        let before = seq.computed;
        let known = seq.tables.iter().map(BlockTable::len).min().unwrap_or(0);
        seq.computed = (before + tokens).min(known);
        for (group, table) in seq.tables.iter().enumerate() {
            for position in before..seq.computed {
                let page_tokens = self.page_tokens[group];
                let page = table.pages()[position / page_tokens].expect("present");
                let holds = self.memory.entry(page).or_insert((group, Vec::new()));
                if holds.0 != group {
                    *holds = (group, Vec::new());
                }
                holds.1.resize(page_tokens, None);
                holds.1[position % page_tokens] = Some(seq.tokens[..=position].to_vec());
            }
        }
        let computed = seq.tokens[..seq.computed].to_vec();
        self.space.seal(&mut seq.tables, &mut seq.keys, &computed, Retention::default());
        let seq = &self.seqs[index];
        let mut sealed = Vec::new();
        for group in 0..self.page_tokens.len() {
            let earlier = before / self.page_tokens[group];
            sealed.extend(self.contents(seq, group, seq.computed).split_off(earlier));
        }
        sealed.into_iter().for_each(|content| self.model.hold(content));
    }

    fn grow(&mut self, index: usize, more: &[TokenId]) {
        let free = self.free();
        let seq = &mut self.seqs[index];
        let len = seq.tables[0].len() + more.len();
        let slots = vec![len; seq.tables.len()];
        let cost = self.space.cost_to_grow(&seq.tables, &slots);
        let available = self.space.available();
        match self.space.grow(&mut seq.tables, &slots) {
            Ok(copies) => {
                for copy in copies {
                    let copied = self.memory.get(&copy.from).cloned();
                    self.memory.extend(copied.map(|content| (copy.to, content)));
                }
                seq.tokens.truncate(len - more.len());
                seq.tokens.extend_from_slice(more);
                self.model.forget_oldest(cost.saturating_sub(free));
            }
            Err(error) => {
                assert_eq!(error, OutOfPages { wanted: cost, free: available });
                assert!(available < cost);
                assert_eq!(self.space.available(), available, "a refusal takes nothing");
            }
        }
    }

    fn fork(&mut self, index: usize) {
        let seq = &self.seqs[index];
        for group in 0..self.page_tokens.len() {
            for content in self.contents(seq, group, seq.computed) {
                self.model.hold(content);
            }
        }
        let seq = &self.seqs[index];
        let fork = Seq {
            salt: seq.salt.clone(),
            tokens: seq.tokens.clone(),
            computed: seq.computed,
            tables: self.space.fork(&seq.tables),
            keys: seq.keys.clone(),
        };
        self.seqs.push(fork);
    }

    fn release(&mut self, index: usize) {
        let mut seq = self.seqs.swap_remove(index);
        for group in 0..self.page_tokens.len() {
            for content in self.contents(&seq, group, seq.computed).into_iter().rev() {
                self.model.release(content);
            }
        }
        self.space.release(std::mem::take(&mut seq.tables));
    }

    fn check(&self) {
        let tables = self.seqs.iter().flat_map(|seq| &seq.tables);
        self.space.check(tables.flat_map(BlockTable::held));
        assert_eq!(self.space.idle(), self.model.idle());
        for seq in &self.seqs {
            for (group, table) in seq.tables.iter().enumerate() {
                for position in 0..seq.computed {
                    let page = table.pages()[position / self.page_tokens[group]].expect("present");
                    let (owner, slots) = &self.memory[&page];
                    assert_eq!(*owner, group, "{page:?} belongs to another group");
                    let slot = &slots[position % self.page_tokens[group]];
                    let expected = &seq.tokens[..=position];
                    assert_eq!(slot.as_deref(), Some(expected), "position {position}");
                }
            }
        }
    }
}

fn random_tokens(rng: &mut Rng, len: usize) -> Vec<TokenId> {
    (0..len).map(|_| TokenId::from(rng.below(4) == 0)).collect()
}

fn random_history(page_tokens: &[usize], seed: u64) {
    let mut rng = Rng::new(seed);
    let longest = 3 * page_tokens.iter().max().expect("a group") + 2;
    let pages = 4 + rng.below(20);
    let mut fixture = Fixture::new(page_tokens, pages);
    for _ in 0..150 {
        let index = rng.below(fixture.seqs.len().max(1));
        match rng.below(10) {
            0..=2 => {
                let len = 1 + rng.below(longest);
                let salt = if rng.below(8) == 0 { "salt" } else { "" };
                fixture.open(salt.into(), random_tokens(&mut rng, len));
            }
            _ if fixture.seqs.is_empty() => {}
            // A sequence is forked only when all its tokens are computed.
            3 if fixture.seqs.len() < 6 => {
                fixture.compute(index, usize::MAX / 2);
                fixture.fork(index);
            }
            4 => fixture.release(index),
            5 | 6 => {
                let len = 1 + rng.below(3);
                let more = random_tokens(&mut rng, len);
                fixture.compute(index, usize::MAX / 2);
                fixture.grow(index, &more);
            }
            _ => fixture.compute(index, 1 + rng.below(longest)),
        }
        fixture.check();
    }
    while !fixture.seqs.is_empty() {
        fixture.release(0);
        fixture.check();
    }
    assert_eq!(fixture.space.available(), fixture.space.total());
}

#[test]
fn random_histories_share_exactly_the_known_content() {
    for page_tokens in [&[1][..], &[2], &[3], &[16], &[2, 3], &[1, 4]] {
        (0..60).for_each(|seed| random_history(page_tokens, seed));
    }
}

#[test]
fn what_a_finished_sequence_computed_is_found_until_the_room_is_needed() {
    let mut fixture = Fixture::new(&[4], 4);
    let tokens: Vec<TokenId> = (0..10).collect();
    fixture.open(String::new(), tokens.clone());
    fixture.compute(0, 10);
    fixture.release(0);
    assert_eq!((fixture.space.available(), fixture.space.idle()), (4, 2));
    let matched = |fixture: &Fixture, tokens: &[TokenId]| {
        let mut keys = fixture.space.new_keys(KindId::FIRST, "");
        keys[0].extend(tokens);
        fixture.space.longest_match(KindId::FIRST, &keys, tokens.len() - 1, |_| None).tokens
    };
    assert_eq!(matched(&fixture, &tokens), 8);
    assert_eq!(matched(&fixture, &tokens[..8]), 4, "the last token is computed for its logits");
    // Three pages are wanted and two are free: the later of the known pages is forgotten.
    fixture.open(String::new(), vec![7; 12]);
    assert_eq!(matched(&fixture, &tokens), 4);
    fixture.release(0);
}

#[test]
fn two_sequences_that_compute_the_same_end_with_the_same_pages() {
    let mut fixture = Fixture::new(&[2], 8);
    fixture.open(String::new(), vec![1, 2, 3, 4, 5]);
    fixture.open(String::new(), vec![1, 2, 3, 4, 6]);
    assert_eq!(fixture.space.available(), 2);
    fixture.compute(0, 5);
    fixture.compute(1, 5);
    fixture.check();
    assert_eq!(fixture.space.available(), 4, "the second copy of two pages is free again");
    assert_eq!(fixture.seqs[0].tables[0].pages()[..2], fixture.seqs[1].tables[0].pages()[..2]);
    fixture.release(0);
    fixture.release(0);
}
