//! How often content was used of late, for all content there is, in a few bytes an entry.
//!
//! A count-min sketch: four rows of 4-bit counters, and content has one counter in each row. Its
//! estimate is the least of the four, so content that meets others in some row is estimated right
//! as long as one row has it alone. An estimate is never too low, up to the most that four bits
//! count; only counters that hold the estimate are raised, which keeps it from being far too high.
//! After ten uses for each entry of the level all counters are halved: what was used long ago
//! counts less and less. (Einziger, Friedman and Manes, *TinyLFU*, 2017.)

pub(super) struct FrequencySketch {
    /// Sixteen counters each, one row after the other.
    words: Vec<u64>,
    /// Counters of a row, less one; a power of two, less one.
    mask: u64,
    uses: usize,
    uses_max: usize,
}

const ROWS: u64 = 4;
/// Counters of one row for each entry of the level: with ten uses an entry between two halvings,
/// rows are sparse enough that few estimates are wrong at all.
const COUNTERS_PER_ENTRY: usize = 4;
const COUNTERS_PER_WORD: usize = 16;
const USES_PER_ENTRY: usize = 10;
/// The lower three bits of each counter: what is left of it after a shift of the word by one.
const HALVES: u64 = 0x7777_7777_7777_7777;

impl FrequencySketch {
    /// The most that a counter counts.
    pub(super) const MOST: u8 = 15;

    /// For a level of `capacity` entries.
    pub(super) fn new(capacity: usize) -> Self {
        let counters = (capacity.max(COUNTERS_PER_WORD) * COUNTERS_PER_ENTRY).next_power_of_two();
        FrequencySketch {
            words: vec![0; counters / COUNTERS_PER_WORD * ROWS as usize],
            mask: counters as u64 - 1,
            uses: 0,
            uses_max: capacity.max(1) * USES_PER_ENTRY,
        }
    }

    pub(super) fn estimate(&self, content: u64) -> u8 {
        let counters = (0..ROWS).map(|row| self.counter(self.location(content, row)));
        counters.min().expect("there are rows")
    }

    /// Counts a use. Returns whether all counters were halved after it.
    pub(super) fn count(&mut self, content: u64) -> bool {
        let estimate = self.estimate(content);
        if estimate < Self::MOST {
            for row in 0..ROWS {
                let (word, shift) = self.location(content, row);
                if self.counter((word, shift)) == estimate {
                    self.words[word] += 1 << shift;
                }
            }
        }
        self.uses += 1;
        let is_due = self.uses == self.uses_max;
        if is_due {
            self.uses = 0;
            self.words.iter_mut().for_each(|word| *word = (*word >> 1) & HALVES);
        }
        is_due
    }

    /// The word of a row's counter, and where in the word it is.
    fn location(&self, content: u64, row: u64) -> (usize, u32) {
        let counter = (mix(content ^ mix(row + 1)) & self.mask) + row * (self.mask + 1);
        let (word, nibble) = (counter / COUNTERS_PER_WORD as u64, counter % 16);
        (word as usize, nibble as u32 * 4)
    }

    fn counter(&self, (word, shift): (usize, u32)) -> u8 {
        (self.words[word] >> shift) as u8 & Self::MOST
    }
}

/// The finaliser of SplitMix64: rows are independent even where `content` is no good hash.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests;
