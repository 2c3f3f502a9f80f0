//! Random numbers that are a function of their place: Philox4x32-10.
//!
//! There is no generator to carry from step to step. The number for a token depends on the
//! request's seed, the choice and the token's position, and on nothing else; so a request gives
//! the same ids alone, in any batch, and after it was preempted and resumed.
//!
//! Definition: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011), section 4.

const ROUNDS: usize = 10;
const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// What each round adds to the key: the golden ratio and the square root of 3, less one.
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// A number in [0, 1) with 53 random bits.
pub fn uniform(seed: u64, choice: u32, position: u64) -> f64 {
    let [position_low, position_high] = halves(position);
    let words = philox4x32([position_low, position_high, choice, 0], halves(seed));
    let bits = (u64::from(words[1]) << 32 | u64::from(words[0])) >> 11;
    bits as f64 / (1u64 << 53) as f64
}

pub(crate) fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let mut words = counter;
    let mut key = key;
    for _ in 0..ROUNDS {
        let [low_0, high_0] = halves(u64::from(MULTIPLIERS[0]) * u64::from(words[0]));
        let [low_1, high_1] = halves(u64::from(MULTIPLIERS[1]) * u64::from(words[2]));
        words = [high_1 ^ words[1] ^ key[0], low_1, high_0 ^ words[3] ^ key[1], low_0];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    words
}

/// The low and the high half.
fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::{philox4x32, uniform};

    /// The known answers published with the authors' Random123 library.
    #[test]
    fn known_answers() {
        let all = u32::MAX;
        let table = [
            ([0; 4], [0; 2], [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]),
            ([all; 4], [all; 2], [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]),
            (
                [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
                [0xa4093822, 0x299f31d0],
                [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
            ),
        ];
        for (counter, key, want) in table {
            assert_eq!(philox4x32(counter, key), want, "counter {counter:x?} key {key:x?}");
        }
    }

    #[test]
    fn numbers_differ_by_seed_choice_and_position_and_stay_below_one() {
        let places = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1 << 32, 0, 0), (0, 0, 1 << 32)];
        let mut seen = Vec::new();
        for (seed, choice, position) in places {
            let number = uniform(seed, choice, position);
            assert!((0.0..1.0).contains(&number), "{number}");
            assert!(!seen.contains(&number), "{seed} {choice} {position} gave a number twice");
            seen.push(number);
        }
    }
}
