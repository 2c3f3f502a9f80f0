//! A policy's rule for one sequence at one step, as plain numbers that a device reads.

/// What a policy's rule is for one sequence at one step. `cache::SlotTable` is its specification.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotRule {
    /// Tokens that earlier steps have put into slots; -1 on a GPU where there is no sequence.
    pub past: i32,
    /// Slots of the cache. The first tokens fill them in order.
    pub slots: i32,
    pub kind: SlotRuleKind,
    /// First tokens of the sequence that never leave.
    pub protected: i32,
    /// Newest tokens that do not leave yet.
    pub grace: i32,
    /// Slots that stay when the first tokens leave a cache that its first chunk filled.
    pub initial: i32,
    /// Tokens of the first chunk, which adds nothing to scores.
    pub first_chunk: i32,
    /// A score is divided by how long its token has been scored.
    pub per_age: bool,
    /// Weights count times the norms of values.
    pub by_value_norm: bool,
    /// Share of the score, the rest being the errors'; 1 where errors do not count.
    pub score_fraction: f32,
    /// By how many positions the protected keys are re-rotated when this step's rows attend.
    pub rerotated: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotRuleKind {
    /// Nothing leaves: the slot is the position.
    Keep,
    /// The oldest leave, going round behind the protected ones.
    Recent,
    /// Those with the lowest score leave, in each head by itself.
    Scored,
}

impl SlotRule {
    /// Words of a rule on a device: the fields in their order, flags as 0 or 1, the share's bits,
    /// and one word of zero.
    pub const WORDS: usize = 12;

    /// A rule that protects nothing and counts weights as they are.
    pub fn new(kind: SlotRuleKind, past: usize, slots: usize) -> SlotRule {
        SlotRule {
            past: past as i32,
            slots: slots as i32,
            kind,
            protected: 0,
            grace: 0,
            initial: 0,
            first_chunk: 0,
            per_age: false,
            by_value_norm: false,
            score_fraction: 1.0,
            rerotated: 0,
        }
    }

    pub fn to_words(&self) -> [i32; Self::WORDS] {
        let kind = match self.kind {
            SlotRuleKind::Keep => 0,
            SlotRuleKind::Recent => 1,
            SlotRuleKind::Scored => 2,
        };
        [
            self.past,
            self.slots,
            kind,
            self.protected,
            self.grace,
            self.initial,
            self.first_chunk,
            i32::from(self.per_age),
            i32::from(self.by_value_norm),
            self.score_fraction.to_bits().cast_signed(),
            self.rerotated,
            0,
        ]
    }

    pub fn from_words(words: &[i32]) -> SlotRule {
        assert_eq!(words.len(), Self::WORDS, "words of a rule");
        SlotRule {
            past: words[0],
            slots: words[1],
            kind: match words[2] {
                0 => SlotRuleKind::Keep,
                1 => SlotRuleKind::Recent,
                2 => SlotRuleKind::Scored,
                other => panic!("rule of kind {other}"),
            },
            protected: words[3],
            grace: words[4],
            initial: words[5],
            first_chunk: words[6],
            per_age: words[7] != 0,
            by_value_norm: words[8] != 0,
            score_fraction: f32::from_bits(words[9].cast_unsigned()),
            rerotated: words[10],
        }
    }

    /// Slots that hold a token once `live` more are there.
    pub fn filled(&self, live: usize) -> usize {
        let seen = self.past as usize + live;
        match self.kind {
            SlotRuleKind::Keep => seen,
            SlotRuleKind::Recent | SlotRuleKind::Scored => seen.min(self.slots as usize),
        }
    }

    /// Whether what this step attends to is added to scores.
    pub fn adds_to_scores(&self) -> bool {
        self.kind == SlotRuleKind::Scored && self.first_chunk <= self.past
    }
}
