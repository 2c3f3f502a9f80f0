//! Tokens sampled on the device against those the host samples.
//!
//! The device sums weights as whole numbers and the host as f64, so a draw may fall on the other
//! side of the boundary between two tokens if it lies within 1e-5 of it. Elsewhere the ids are
//! equal, and a row gives the same id in any batch.

use terrace_device::View;

use crate::conformance::report::Report;
use crate::random::SplitMix;
use crate::sampling::{Chooser, Draw, Pick, SampleRow, uniform};

/// What skipped ids hold.
pub(super) const UNTOUCHED: i32 = -7;

/// In rising order.
pub(super) const VOCABS: [usize; 10] = [1, 2, 7, 33, 100, 1000, 4097, 49_152, 128_256, 262_208];
const ROWS: usize = 26;
const BOUNDARY: f64 = 1e-5;

/// `choose` chooses for each row from logits: f32 `[ROWS, vocab]`.
pub(super) fn check(
    random: &mut SplitMix,
    report: &mut Report,
    mut choose: impl FnMut(View<'_>, &[SampleRow]) -> Vec<i32>,
) {
    for vocab in VOCABS {
        if report.skips("sample") {
            continue;
        }
        let kind = random.below(1000);
        let logits: Vec<Vec<f32>> = (0..ROWS).map(|i| row(random, vocab, kind + i)).collect();
        let picks: Vec<Pick> = (0..ROWS).map(|i| pick(random, kind + i)).collect();
        let flat = logits.concat();
        let view = View::of(&flat, [ROWS, vocab]);
        let rows: Vec<SampleRow> = (0..ROWS).map(|i| SampleRow::new(picks[i], i)).collect();
        let got = choose(view, &rows);
        for (i, (logits, &pick)) in logits.iter().zip(&picks).enumerate() {
            let [first, last] = allowed(logits, pick);
            let is_right = (first..=last).contains(&got[i]);
            let want = if is_right { got[i] } else { sampled(logits, pick, None) };
            let case = format!("{pick:?} from {vocab}, kind {}", kind + i);
            report.compare_exactly("sample", case, &[got[i]], &[want]);
        }
        let backwards: Vec<SampleRow> = rows.iter().rev().copied().collect();
        let mut again = choose(view, &backwards);
        again.reverse();
        report.compare_exactly("sample", format!("{vocab} in another order"), &again, &got);
        let one = ROWS / 2;
        let alone = choose(view, &[SampleRow::SKIP, rows[one]]);
        let want = [UNTOUCHED, got[one]];
        report.compare_exactly("sample", format!("{vocab} alone"), &alone, &want);
    }
}

/// The ids at both ends of what may be drawn.
fn allowed(logits: &[f32], pick: Pick) -> [i32; 2] {
    let Pick::Draw(draw) = pick else { return [sampled(logits, pick, None); 2] };
    let number = uniform(draw.seed, draw.choice, draw.position);
    [number - BOUNDARY, number + BOUNDARY]
        .map(|number| sampled(logits, pick, Some(number.clamp(0.0, 1.0 - f64::EPSILON))))
}

/// As the device says it: -1 is none.
fn sampled(logits: &[f32], pick: Pick, number: Option<f64>) -> i32 {
    let (mut chooser, mut logits) = (Chooser::default(), logits.to_vec());
    let id = match number {
        None => chooser.choose(&mut logits, pick),
        Some(number) => chooser.choose_with(&mut logits, pick, number),
    };
    id.map_or(-1, |id| id as i32)
}

fn pick(random: &mut SplitMix, kind: usize) -> Pick {
    let filters = [
        (0, 1.0, 0.0),
        (50, 1.0, 0.0),
        (0, 0.9, 0.0),
        (40, 0.95, 0.0),
        (0, 1.0, 0.05),
        (20, 0.8, 0.02),
        (1, 1.0, 0.0),
        (100_000, 0.999, 0.0),
        (0, 0.3, 0.0),
        (0, 1e-30, 0.0),
        (3, 0.5, 0.3),
        (5000, 0.99, 0.001),
    ];
    let Some(&(top_k, top_p, min_p)) = filters.get(kind % (filters.len() + 1)) else {
        return Pick::Greedy;
    };
    Pick::Draw(Draw {
        temperature: [0.1, 0.7, 1.0, 1.5, 5.0][random.below(5)],
        top_k,
        top_p,
        min_p,
        typical_p: 1.0,
        seed: random.bits(),
        choice: random.below(4) as u32,
        position: random.bits() >> 20,
    })
}

/// A bell of logits, with ties, what is not a number, infinities, or a peak.
fn row(random: &mut SplitMix, vocab: usize, kind: usize) -> Vec<f32> {
    let width = [0.3, 2.0, 4.0][random.below(3)];
    let bell = |random: &mut SplitMix| (0..4).map(|_| random.number()).sum::<f32>() * width;
    let mut row: Vec<f32> = (0..vocab).map(|_| bell(random)).collect();
    match kind % 11 {
        1 => row.iter_mut().for_each(|x| *x = (4.0 * *x).round() / 4.0),
        2 => row.iter_mut().for_each(|x| *x = f32::from_bits(x.to_bits() & 0xffff_0000)),
        3 => {
            for _ in 0..vocab / 4 {
                row[random.below(vocab)] = f32::NAN;
                row[random.below(vocab)] = f32::NEG_INFINITY;
            }
        }
        4 => row.fill(1.5),
        5 => row[random.below(vocab)] += 20.0,
        6 => row.iter_mut().for_each(|x| *x *= 50.0),
        7 => row.fill([f32::NAN, f32::NEG_INFINITY][random.below(2)]),
        8 => row[random.below(vocab)] = f32::INFINITY,
        9 => row.iter_mut().for_each(|x| *x = if *x > 0.0 { -0.0 } else { 0.0 }),
        _ => {}
    }
    row
}

#[cfg(test)]
mod tests {
    use super::{Report, SplitMix, UNTOUCHED, check, sampled};
    use crate::conformance::Extent;
    use crate::sampling::{Pick, SampleRow};

    /// A device that takes the best token for every row, at its place in the batch.
    #[test]
    fn wrong_ids_are_seen() {
        let mut report = Report::new(Extent::Whole);
        check(&mut SplitMix::new(3), &mut report, |logits, rows| {
            let best = |i: usize| sampled(logits.row(i), Pick::Greedy, None);
            let skips = |row: &SampleRow| *row == SampleRow::SKIP;
            (0..rows.len()).map(|i| if skips(&rows[i]) { UNTOUCHED } else { best(i) }).collect()
        });
        let failed = |word: &str| report.failures().any(|case| case.case.contains(word));
        assert!(failed("Draw") && failed("another order") && failed("alone"));
        assert!(!failed("Greedy"));
    }
}
