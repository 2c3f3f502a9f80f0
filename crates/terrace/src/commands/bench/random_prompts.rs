//! Prompts that differ from each other, the same in every run of the program.

use terrace_engine::TokenId;

pub struct RandomPrompts {
    state: u64,
    vocab: usize,
}

impl RandomPrompts {
    pub fn new(seed: u64, vocab: usize) -> Self {
        RandomPrompts { state: seed, vocab }
    }

    pub fn vocab(&self) -> usize {
        self.vocab
    }

    pub fn next(&mut self, tokens: usize) -> Vec<TokenId> {
        (0..tokens).map(|_| self.below(self.vocab) as TokenId).collect()
    }

    /// Prompts of so many requests.
    pub fn batch(&mut self, requests: usize, tokens: usize) -> Vec<Vec<TokenId>> {
        (0..requests).map(|_| self.next(tokens)).collect()
    }

    /// A number from `0..end`.
    pub fn below(&mut self, end: usize) -> usize {
        // Knuth's MMIX generator; its high bits are good enough to tell prompts apart.
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.state >> 33) % end as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_new_and_repeatable() {
        let batch = RandomPrompts::new(1, 50).batch(3, 20);
        assert_eq!(batch, RandomPrompts::new(1, 50).batch(3, 20));
        assert!(batch[0] != batch[1] && batch[1] != batch[2]);
        assert!(batch.iter().flatten().all(|&id| id < 50));
        assert_ne!(batch, RandomPrompts::new(2, 50).batch(3, 20));
    }
}
