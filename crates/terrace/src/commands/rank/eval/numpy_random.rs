//! The random numbers of NumPy's `default_rng`, which our trainer draws with.
//!
//! A seed becomes the state of a PCG64 through NumPy's `SeedSequence`, which mixes 32-bit words
//! (M. E. O'Neill's `seed_seq_fe`). Both are fixed by NumPy's promise that streams stay the same.

pub struct NumpyRandom {
    state: u128,
    increment: u128,
}

const POOL_WORDS: usize = 4;
const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;

impl NumpyRandom {
    /// As `default_rng([…])`.
    pub fn new(seed: &[u64]) -> Self {
        let words = SeedWords::new(seed).words::<8>();
        let u64_at = |at: usize| u128::from(words[2 * at]) | u128::from(words[2 * at + 1]) << 32;
        let u128_at = |at: usize| u64_at(at) << 64 | u64_at(at + 1);
        let (start, stream) = (u128_at(0), u128_at(2));
        let mut random = NumpyRandom { state: 0, increment: stream << 1 | 1 };
        random.step();
        random.state = random.state.wrapping_add(start);
        random.step();
        random
    }

    /// From 0 to below 1, as `random()`.
    pub fn next_f64(&mut self) -> f64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        let bits = folded.rotate_right((self.state >> 122) as u32);
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }
}

/// NumPy's `SeedSequence`.
struct SeedWords {
    pool: [u32; POOL_WORDS],
}

/// A multiplier that changes with each use.
struct Hash {
    constant: u32,
    factor: u32,
}

impl Hash {
    fn mixed(&mut self, word: u32) -> u32 {
        let word = word ^ self.constant;
        self.constant = self.constant.wrapping_mul(self.factor);
        let word = word.wrapping_mul(self.constant);
        word ^ word >> 16
    }
}

impl SeedWords {
    fn new(seed: &[u64]) -> Self {
        let mut entropy = Vec::new();
        for number in seed {
            entropy.push(*number as u32);
            let high = (*number >> 32) as u32;
            entropy.extend((high != 0).then_some(high));
        }
        let mut hash = Hash { constant: 0x43b0_d7e5, factor: 0x931e_8875 };
        let mut pool = [0; POOL_WORDS];
        for (at, word) in pool.iter_mut().enumerate() {
            *word = hash.mixed(entropy.get(at).copied().unwrap_or(0));
        }
        for from in 0..POOL_WORDS {
            for to in (0..POOL_WORDS).filter(|to| *to != from) {
                pool[to] = merged(pool[to], hash.mixed(pool[from]));
            }
        }
        for word in entropy.iter().skip(POOL_WORDS) {
            for to in &mut pool {
                *to = merged(*to, hash.mixed(*word));
            }
        }
        SeedWords { pool }
    }

    fn words<const COUNT: usize>(&self) -> [u32; COUNT] {
        let mut hash = Hash { constant: 0x8b51_f9dd, factor: 0x58f3_8ded };
        std::array::from_fn(|at| hash.mixed(self.pool[at % POOL_WORDS]))
    }
}

fn merged(one: u32, other: u32) -> u32 {
    let word = one.wrapping_mul(0xca01_f9dd).wrapping_sub(other.wrapping_mul(0x4973_f715));
    word ^ word >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `numpy.random.default_rng(seed).random(3).tolist()` of NumPy 2.4 prints them.
    #[track_caller]
    fn check(seed: &[u64], want: [f64; 3]) {
        let mut random = NumpyRandom::new(seed);
        assert_eq!([(); 3].map(|()| random.next_f64()), want, "{seed:?}");
    }

    #[test]
    fn numbers_are_those_of_numpy() {
        check(&[1234, 1], [0.14648689473430476, 0.4005462927297164, 0.057188057094996636]);
        check(&[0, 1], [0.8897387912781343, 0.5571380502062263, 0.8009080868919721]);
        check(&[(1 << 40) + 3, 1], [0.5320944118601685, 0.3519809300442923, 0.6807701203609012]);
        check(&[1, 2, 3, 4, 5, 6], [0.6218049217551649, 0.11940126789606353, 0.8390479995608978]);
    }
}
