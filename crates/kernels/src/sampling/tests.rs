//! The fast filters against slow ones that sort everything.

use super::argmax::argmax;
use super::min_p::min_p;
use super::top_k::top_k;
use super::top_p::{TopPScratch, top_p};
use super::typical_p::{TypicalScratch, typical_p};
use super::uniform;

const NONE: f32 = f32::NEG_INFINITY;

/// `vocab` scores between -8 and 8, a function of `seed`. With `steps`, many are equal.
fn random_row(vocab: usize, seed: u64, steps: Option<f64>) -> Vec<f32> {
    let random = |id: usize| uniform(seed, 0, id as u64) * 16.0 - 8.0;
    let coarse = |score: f64| steps.map_or(score, |steps| (score * steps).round() / steps);
    (0..vocab).map(|id| coarse(random(id)) as f32).collect()
}

/// Lengths around every block size in use, rows with and without ties.
fn rows() -> impl Iterator<Item = Vec<f32>> {
    let lengths = [1, 2, 15, 16, 17, 63, 64, 65, 129, 300, 1023, 1025, 3000];
    let steps = [None, Some(1.0), Some(0.1)];
    lengths
        .into_iter()
        .flat_map(move |vocab| steps.map(|steps| random_row(vocab, vocab as u64, steps)))
}

/// Ids, best first, lower id first on ties.
fn ranked(row: &[f32]) -> Vec<usize> {
    let mut ids: Vec<usize> = (0..row.len()).collect();
    ids.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
    ids
}

fn masked(row: &[f32], stays: impl Fn(usize) -> bool) -> Vec<f32> {
    row.iter().enumerate().map(|(id, &score)| if stays(id) { score } else { NONE }).collect()
}

#[test]
fn argmax_is_the_first_of_the_ranked() {
    for row in rows() {
        assert_eq!(argmax(&row), Some(ranked(&row)[0]), "vocab {}", row.len());
    }
}

#[test]
fn top_k_keeps_the_first_k_and_ties() {
    for row in rows() {
        let ids = ranked(&row);
        for k in [1, 2, 50, 200, 1000, 5000] {
            let floor = row[ids[k.min(row.len()) - 1]];
            let mut got = row.clone();
            top_k(&mut got, k, &mut Vec::new());
            assert_eq!(got, masked(&row, |id| row[id] >= floor), "vocab {}, k {k}", row.len());
        }
    }
}

#[test]
fn top_k_passes_over_forbidden_tokens() {
    let mut row = [NONE, 1.0, f32::NAN, NONE, 2.0];
    top_k(&mut row, 4, &mut Vec::new());
    assert_eq!(row, [NONE, 1.0, NONE, NONE, 2.0]);
}

#[test]
fn top_p_keeps_the_first_that_reach_it() {
    for row in rows() {
        let ids = ranked(&row);
        let weights: Vec<f64> = ids.iter().map(|&id| f64::from(row[id]).exp()).collect();
        let total: f64 = weights.iter().sum();
        for p in [1e-30, 0.1, 0.47, 0.9, 0.999] {
            // As many as keep the mass before each of them below p; the first is always among.
            let mut before = 0.0;
            let mut kept = 0;
            for weight in &weights {
                if kept > 0 && before >= f64::from(p) * total {
                    break;
                }
                before += weight;
                kept += 1;
            }
            let mut got = row.clone();
            top_p(&mut got, p, &mut TopPScratch::default());
            let want = masked(&row, |id| ids[..kept].contains(&id));
            assert_eq!(got, want, "vocab {}, p {p}", row.len());
        }
    }
}

#[test]
fn min_p_compares_with_the_best() {
    let row = [0.8f32.ln(), 0.1f32.ln(), 0.06f32.ln(), 0.04f32.ln()];
    for (share, kept) in [(0.01, 4), (0.06, 3), (0.1, 2), (0.2, 1), (0.99, 1)] {
        let mut got = row;
        min_p(&mut got, share);
        assert_eq!(got.to_vec(), masked(&row, |id| id < kept), "min_p {share}");
    }
}

/// Probabilities 1/2, 1/4, 1/8, 1/8 have surprisals of 1, 2, 3 and 3 bits, and an entropy of
/// 1/2 * 1 + 1/4 * 2 + 2 * 1/8 * 3 = 1.75 bits. They are 0.75, 0.25, 1.25 and 1.25 bits away from
/// it, so the second token is the most typical, then the first, and the last two are equal.
#[test]
fn typical_p_keeps_what_is_near_the_entropy() {
    let row = [0.5f32.ln(), 0.25f32.ln(), 0.125f32.ln(), 0.125f32.ln()];
    let table: [(f32, &[usize]); 6] = [
        (1e-30, &[1]),
        (0.24, &[1]),
        (0.26, &[0, 1]),
        (0.74, &[0, 1]),
        (0.76, &[0, 1, 2, 3]),
        (1.0, &[0, 1, 2, 3]),
    ];
    for (p, kept) in table {
        let mut got = row;
        typical_p(&mut got, p, &mut TypicalScratch::default());
        assert_eq!(got.to_vec(), masked(&row, |id| kept.contains(&id)), "typical_p {p}");
    }
}

/// Of one token all is typical; where all are equally probable, nothing tells them apart.
#[test]
fn typical_p_keeps_all_of_what_is_alike() {
    for vocab in [1, 2, 63, 64, 65, 129] {
        let row = vec![3.5; vocab];
        let mut got = row.clone();
        typical_p(&mut got, 0.1, &mut TypicalScratch::default());
        assert_eq!(got, row, "vocab {vocab}");
    }
}

#[test]
fn typical_p_passes_over_forbidden_tokens() {
    let mut row = [NONE, 1.0, f32::NAN, 1.0, NONE];
    typical_p(&mut row, 0.9, &mut TypicalScratch::default());
    assert_eq!(row, [NONE, 1.0, NONE, 1.0, NONE]);
}

#[test]
fn typical_p_keeps_the_nearest_that_reach_it() {
    for row in rows() {
        let weights: Vec<f64> = row.iter().map(|&score| f64::from(score).exp()).collect();
        let total: f64 = weights.iter().sum();
        let surprisal = |id: usize| -(weights[id] / total).ln();
        let entropy: f64 = (0..row.len()).map(|id| weights[id] / total * surprisal(id)).sum();
        let deviation = |id: usize| (surprisal(id) - entropy).abs();
        let mut ids: Vec<usize> = (0..row.len()).collect();
        ids.sort_by(|&a, &b| deviation(a).total_cmp(&deviation(b)));
        for p in [1e-30, 0.1, 0.47, 0.9, 0.999] {
            let mut mass = 0.0;
            let reaches = |&id: &usize| {
                mass += weights[id] / total;
                mass >= f64::from(p)
            };
            let last = ids.iter().copied().find(reaches).expect("all reach it");
            let mut got = row.clone();
            typical_p(&mut got, p, &mut TypicalScratch::default());
            // Equal scores are equally near; what rounding tells apart here must not count.
            let want = masked(&row, |id| deviation(id) <= deviation(last) + 1e-9);
            assert_eq!(got, want, "vocab {}, p {p}", row.len());
        }
    }
}
