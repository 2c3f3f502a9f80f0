//! Whether the pages of a handle from elsewhere hold positions that a policy can go on from.
//!
//! Keys, values and scores are numbers: whatever they are, they harm nobody but who imports them.
//! Positions decide which slots may leave. So those of a table are what they are after any history:
//! each token at most once in a head, all of them computed, the protected ones in the first slots.

use terrace_cache::KvGroup;
use terrace_cache::policy::Rule;
use terrace_kernels::{KvLayout, SlotLayout};

use crate::generate::past::Past;

/// Takes all pages of a handle, in the order of its manifest.
pub(crate) struct PageCheck {
    /// Those that still have pages to come, the next one last.
    tables: Vec<TableCheck>,
}

struct TableCheck {
    pages: usize,
    slots: Option<SlotCheck>,
}

/// Of a table whose pages are slots.
struct SlotCheck {
    layout: SlotLayout,
    filled: usize,
    computed: usize,
    /// Slots that hold the token of their own number.
    in_order: usize,
    /// Of each head of each layer, slot by slot.
    positions: Vec<Vec<i32>>,
}

impl PageCheck {
    pub(crate) fn new(past: &Past, groups: &[KvGroup]) -> Self {
        let file = past.file.as_ref().expect("a handle from elsewhere is a file");
        let policy = past.cache.as_ref().and_then(|cache| cache.policy.as_ref());
        let tables = file.tables.iter().zip(groups).enumerate().map(|(index, (table, group))| {
            let in_order = match policy.map(|policy| &policy.rules[index].rule) {
                Some(Rule::Scored(rule)) => rule.protected_tokens.min(table.len),
                Some(Rule::Recent(rule)) => rule.protected_tokens.min(table.len),
                Some(Rule::Keep) | None => table.len,
            };
            let slots = match group.layout {
                KvLayout::Dense(_) => None,
                KvLayout::Slots(layout) => Some(SlotCheck {
                    layout,
                    filled: table.len,
                    computed: file.computed,
                    in_order,
                    positions: vec![Vec::new(); layout.layers * layout.kv_heads],
                }),
            };
            TableCheck { pages: table.pages(), slots }
        });
        let mut tables: Vec<TableCheck> = tables.filter(|table| 0 < table.pages).collect();
        tables.reverse();
        PageCheck { tables }
    }

    /// The next page; what is wrong with it, or with the table that it ends.
    pub(crate) fn take(&mut self, page: &[u8]) -> Result<(), String> {
        let table = self.tables.last_mut().expect("as many pages as the manifest lists");
        table.pages -= 1;
        if let Some(slots) = &mut table.slots {
            slots.take(page);
        }
        if 0 < table.pages {
            return Ok(());
        }
        let ended = self.tables.pop().expect("it was there");
        ended.slots.map_or(Ok(()), |slots| slots.check())
    }
}

impl SlotCheck {
    fn take(&mut self, page: &[u8]) {
        let SlotLayout { kv_heads, page_slots, .. } = self.layout;
        for (head, positions) in self.positions.iter_mut().enumerate() {
            let array = self.layout.offsets(head / kv_heads).positions;
            let start = array + head % kv_heads * page_slots * size_of::<i32>();
            let bytes = &page[start..start + page_slots * size_of::<i32>()];
            let left = self.filled - positions.len();
            let found = bytes.as_chunks().0.iter().take(left);
            positions.extend(found.map(|bytes| i32::from_le_bytes(*bytes)));
        }
    }

    fn check(self) -> Result<(), String> {
        for (head, mut positions) in self.positions.into_iter().enumerate() {
            let (layer, head) = (head / self.layout.kv_heads, head % self.layout.kv_heads);
            let wrong = |what: String| Err(format!("head {head} of its layer {layer}: {what}"));
            let misplaced = |(slot, position): (usize, &i32)| *position != slot as i32;
            let first = &positions[..self.in_order];
            if let Some(slot) = first.iter().enumerate().position(misplaced) {
                return wrong(format!("slot {slot} has the token at {}", first[slot]));
            }
            positions.sort_unstable();
            let is_computed =
                |position: &&i32| (0..self.computed as i64).contains(&i64::from(**position));
            if let Some(position) = positions.iter().find(|position| !is_computed(position)) {
                let computed = self.computed;
                return wrong(format!("a token at {position}, and {computed} are computed"));
            }
            if let Some(twice) = positions.windows(2).find(|pair| pair[0] == pair[1]) {
                return wrong(format!("the token at {} is there twice", twice[0]));
            }
        }
        Ok(())
    }
}
