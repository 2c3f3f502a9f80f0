//! The original's replay log as ours.
//!
//! Its newest tokens wait in a ring of slots and move on when the ring comes round; the log says
//! where they move to. Ours stay where they are. Which tokens are held is the same, and the order
//! of slots changes no gradient: so each token takes the slot of the token that leaves for it.

use std::collections::VecDeque;

use terrace_cache::policy::{Placement, ReplayLog, TableShape};

/// One head of one sequence.
pub(super) struct RecordedHead<'a> {
    pub slots: usize,
    pub ring: usize,
    pub chunks: &'a [usize],
    /// For each token beyond the slots, the slot that was chosen.
    pub chosen: &'a [i32],
}

impl RecordedHead<'_> {
    /// Our slots of all tokens.
    pub fn slots_of_tokens(&self) -> Vec<u32> {
        let (mut ours, mut position) = (Vec::new(), 0);
        // Which of our slots holds what is in each of the original's.
        let mut held: Vec<u32> = (0..self.slots as u32).collect();
        let mut ring = self.slots - self.ring;
        for tokens in self.chunks {
            if position + tokens <= self.slots {
                ours.extend((position as u32)..(position + tokens) as u32);
                position += tokens;
                continue;
            }
            let chosen = &self.chosen[position - self.slots..][..*tokens];
            let in_ring = (*tokens).min(self.ring);
            let ring_slots: Vec<usize> = (0..in_ring)
                .map(|i| self.slots - self.ring + (ring - (self.slots - self.ring) + i) % self.ring)
                .collect();
            // The new tokens take our slots of those that leave.
            let freed: Vec<u32> = chosen.iter().map(|slot| held[*slot as usize]).collect();
            let mut entering: VecDeque<u32> =
                ring_slots.iter().map(|slot| held[*slot]).chain(freed.iter().copied()).collect();
            for slot in chosen {
                held[*slot as usize] = entering.pop_front().expect("as many as were chosen");
            }
            for slot in &ring_slots {
                held[*slot] = entering.pop_front().expect("the newest tokens");
            }
            if *tokens <= self.ring && self.ring > 0 {
                let first = self.slots - self.ring;
                ring = first + (ring - first + tokens) % self.ring;
            }
            ours.extend(freed);
            position += tokens;
        }
        ours
    }
}

/// heads: the slots of all tokens, `[layers][kv_heads]`
pub(super) fn log_of(
    shapes: &[TableShape],
    chunks: &[usize],
    heads: &[Vec<Vec<u32>>],
) -> ReplayLog {
    let mut log = ReplayLog::new(shapes);
    let mut position = 0;
    for tokens in chunks {
        log.begin_chunk(*tokens);
        for (layer, heads) in heads.iter().enumerate() {
            let slots = heads.iter().flat_map(|slots| &slots[position..position + tokens]);
            log.record(layer, &Placement { tokens: *tokens, slots: slots.copied().collect() });
        }
        position += tokens;
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a ring a token goes where the log says.
    #[test]
    fn slots_without_a_ring_are_the_logs_own() {
        let head = RecordedHead { slots: 4, ring: 0, chunks: &[4, 2, 1], chosen: &[3, 1, 0] };
        assert_eq!(head.slots_of_tokens(), [0, 1, 2, 3, 3, 1, 0]);
    }

    /// Tokens 4 and 5 push 0 and 1 out of slots 0 and 1, into which 2 and 3 move from the ring.
    #[test]
    fn tokens_stay_in_the_slots_that_others_left() {
        let head = RecordedHead { slots: 4, ring: 2, chunks: &[4, 2, 1], chosen: &[0, 1, 0] };
        // Then token 6 pushes 2 out, which lies in our slot 2.
        assert_eq!(head.slots_of_tokens(), [0, 1, 2, 3, 0, 1, 2]);
    }
}
