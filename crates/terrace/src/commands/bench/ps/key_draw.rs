//! Keys of look-ups, from `0..rows`: drawn by Zipf's law, or all alike.

use std::fmt;

use terrace_kernels::random::SplitMix;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeyDraw {
    /// With this exponent: the key of rank k is drawn as often as 1 / k^exponent says.
    Zipf(f64),
    Uniform,
}

/// A prime, so that its multiples reach all rows: keys that are drawn often lie far apart.
const STRIDE: usize = 2_654_435_761;

impl KeyDraw {
    pub fn keys(self, rows: usize, count: usize, seed: u64) -> Vec<i64> {
        let mut random = SplitMix::new(seed);
        match self {
            KeyDraw::Uniform => (0..count).map(|_| random.below(rows) as i64).collect(),
            KeyDraw::Zipf(exponent) => {
                let law = ZipfLaw::new(rows, exponent);
                (0..count).map(|_| scattered(law.rank(&mut random), rows)).collect()
            }
        }
    }
}

impl fmt::Display for KeyDraw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyDraw::Zipf(exponent) => f.pad(&format!("zipf {exponent}")),
            KeyDraw::Uniform => f.pad("uniform"),
        }
    }
}

/// A different key for each number below `rows`.
pub fn scattered(number: usize, rows: usize) -> i64 {
    ((number as u128 * STRIDE as u128) % rows as u128) as i64
}

/// Ranks by rejection from the area under the law's curve, which needs no table (Hörmann and
/// Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions",
/// 1996).
struct ZipfLaw {
    ranks: f64,
    exponent: f64,
    /// The area up to the first rank, less what that rank takes, and up to the last one.
    area: [f64; 2],
    /// Ranks so close to their place on the curve are never refused.
    safe: f64,
}

impl ZipfLaw {
    fn new(ranks: usize, exponent: f64) -> Self {
        let mut law = ZipfLaw { ranks: ranks as f64, exponent, area: [0.0; 2], safe: 0.0 };
        law.area = [law.area_to(1.5) - 1.0, law.area_to(law.ranks + 0.5)];
        law.safe = 2.0 - law.place_of(law.area_to(2.5) - 2f64.powf(-exponent));
        law
    }

    /// From 0.
    fn rank(&self, random: &mut SplitMix) -> usize {
        let [first, last] = self.area;
        loop {
            let unit = (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
            let area = last + unit * (first - last);
            let place = self.place_of(area);
            let rank = place.round().clamp(1.0, self.ranks);
            let is_within = area >= self.area_to(rank + 0.5) - rank.powf(-self.exponent);
            if rank - place <= self.safe || is_within {
                return rank as usize - 1;
            }
        }
    }

    /// Under the curve from 1 to `place`.
    fn area_to(&self, place: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power == 0.0 { place.ln() } else { (place.powf(power) - 1.0) / power }
    }

    fn place_of(&self, area: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power == 0.0 { area.exp() } else { (1.0 + area * power).max(0.0).powf(1.0 / power) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_the_law_says() {
        const RANKS: usize = 50;
        const DRAWN: usize = 200_000;
        for exponent in [0.5, 1.0, 1.05, 2.0] {
            let (law, mut random) = (ZipfLaw::new(RANKS, exponent), SplitMix::new(7));
            let mut counts = [0; RANKS];
            (0..DRAWN).for_each(|_| counts[law.rank(&mut random)] += 1);
            let weight = |rank: usize| (rank as f64 + 1.0).powf(-exponent);
            let all: f64 = (0..RANKS).map(weight).sum();
            for (rank, count) in counts.into_iter().enumerate() {
                let want = weight(rank) / all * DRAWN as f64;
                let error = (f64::from(count) - want).abs();
                assert!(error < 5.0 * want.sqrt() + 5.0, "{exponent}: {rank} {count} {want}");
            }
        }
    }

    #[test]
    fn every_key_is_of_a_row_and_every_number_has_its_own() {
        for rows in [1, 2, 1000, 4096] {
            for draw in [KeyDraw::Zipf(1.05), KeyDraw::Uniform] {
                let keys = draw.keys(rows, 500, 3);
                assert!(keys.iter().all(|key| (0..rows as i64).contains(key)), "{draw} of {rows}");
            }
            let mut all: Vec<i64> = (0..rows).map(|number| scattered(number, rows)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..rows as i64));
        }
    }
}
