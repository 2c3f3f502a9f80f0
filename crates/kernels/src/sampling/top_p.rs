//! Keeps the most probable tokens that together reach a probability.

use super::softmax::weigh;

/// Scratch of [`top_p`].
#[derive(Default)]
pub struct TopPScratch {
    weights: Vec<f32>,
    ranked: Vec<Ranked>,
}

/// A token stays if those before it, best first, hold less than `top_p` of the probability. So
/// one always stays. Of equally probable tokens the lower id comes first.
pub fn top_p(scores: &mut [f32], top_p: f32, scratch: &mut TopPScratch) {
    if top_p >= 1.0 {
        return;
    }
    let TopPScratch { weights, ranked } = scratch;
    let total = weigh(scores, weights);
    let top_p = f64::from(top_p);

    // All tokens lighter than this hold together less than `1 - top_p`: none of them can stay. It
    // spares ranking most of a large vocabulary.
    let floor = total * (1.0 - top_p) / weights.len() as f64;
    // Always written, sometimes kept: a branch here would be mispredicted for every other token.
    ranked.resize(weights.len(), Ranked(0));
    let mut kept = 0;
    for (index, &weight) in (0..).zip(weights.iter()) {
        ranked[kept] = Ranked::new(weight, index);
        kept += usize::from(f64::from(weight) >= floor);
    }
    let Some(last) = last_within(&mut ranked[..kept], total * top_p) else { return };

    let boundary = last.index() + 1;
    let forbid_if = |score: &mut f32, dropped: bool| {
        *score = if dropped { f32::NEG_INFINITY } else { *score };
    };
    for (score, &weight) in scores[..boundary].iter_mut().zip(&weights[..boundary]) {
        forbid_if(score, weight < last.weight());
    }
    for (score, &weight) in scores[boundary..].iter_mut().zip(&weights[boundary..]) {
        forbid_if(score, weight <= last.weight());
    }
}

/// A token's place as one number, which is quick to compare: heavier is less, then lower index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ranked(u64);

impl Ranked {
    /// The bits of a float that is not negative rise with it.
    fn new(weight: f32, index: u32) -> Self {
        Self(u64::from(!weight.to_bits()) << 32 | u64::from(index))
    }

    fn weight(self) -> f32 {
        f32::from_bits(!(self.0 >> 32) as u32)
    }

    fn index(self) -> usize {
        self.0 as u32 as usize
    }
}

/// The last token, best first, before which less than `mass` lies.
///
/// Halves what is ranked until little is left to sort, so a flat distribution over a large
/// vocabulary costs no more than a few passes.
fn last_within(mut ranked: &mut [Ranked], mut mass: f64) -> Option<Ranked> {
    const SORTED: usize = 64;
    while ranked.len() > SORTED {
        let middle = ranked.len() / 2;
        ranked.select_nth_unstable(middle);
        let (best, rest) = ranked.split_at_mut(middle);
        let best_mass: f64 = best.iter().map(|token| f64::from(token.weight())).sum();
        if best_mass >= mass {
            ranked = best;
        } else {
            mass -= best_mass;
            ranked = rest;
        }
    }
    ranked.sort_unstable();
    let mut last = None;
    for token in ranked {
        if last.is_some() && mass <= 0.0 {
            break;
        }
        mass -= f64::from(token.weight());
        last = Some(*token);
    }
    last
}
