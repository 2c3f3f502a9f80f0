//! The tokens that may come next.

use llguidance::toktrie::SimpleVob;

use terrace_cache::TokenId;

#[derive(Clone, Debug, PartialEq)]
pub struct AllowedTokens {
    /// One bit for each token of the vocabulary; none beyond it is set.
    bits: SimpleVob,
}

impl AllowedTokens {
    pub(super) fn new(bits: SimpleVob) -> Self {
        AllowedTokens { bits }
    }

    pub fn contains(&self, token: TokenId) -> bool {
        (token as usize) < self.bits.len() && self.bits.is_allowed(token)
    }

    /// Forbids all other tokens. `scores`: [vocab]
    pub fn forbid_others(&self, scores: &mut [f32]) {
        let (words, _) = scores.as_chunks_mut::<32>();
        let known = words.len().min(self.bits.as_slice().len());
        for (scores, &bits) in words.iter_mut().zip(self.bits.as_slice()) {
            // Most words are all forbidden or all allowed.
            match bits {
                u32::MAX => {}
                0 => scores.fill(f32::NEG_INFINITY),
                _ => forbid(scores, bits),
            }
        }
        let (first, bits) = (32 * known, self.bits.as_slice().get(known).copied().unwrap_or(0));
        let rest = &mut scores[first..];
        let (last, beyond) = rest.split_at_mut(rest.len().min(32));
        forbid(last, bits);
        beyond.fill(f32::NEG_INFINITY);
    }
}

/// Bit `i` of `bits` allows `scores[i]`.
fn forbid(scores: &mut [f32], bits: u32) {
    for (bit, score) in scores.iter_mut().enumerate() {
        if bits & (1 << bit) == 0 {
            *score = f32::NEG_INFINITY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_allowed_is_forbidden_whatever_the_sizes() {
        for (vocab, known) in [(1, 1), (31, 31), (64, 64), (70, 70), (100, 64), (100, 70)] {
            let mut bits = SimpleVob::alloc(known);
            let wanted =
                |token: usize| token < known && (token.is_multiple_of(3) || token / 32 == 1);
            for token in (0..known).filter(|&token| wanted(token)) {
                bits.allow_token(token as TokenId);
            }
            let allowed = AllowedTokens::new(bits);
            let mut scores = vec![1.0; vocab];
            allowed.forbid_others(&mut scores);
            for (token, score) in scores.into_iter().enumerate() {
                let want = if wanted(token) { 1.0 } else { f32::NEG_INFINITY };
                assert_eq!(score, want, "token {token} of {vocab}, {known} known");
                assert_eq!(allowed.contains(token as TokenId), wanted(token));
            }
        }
    }
}
