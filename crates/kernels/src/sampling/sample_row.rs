//! What the GPU's kernel takes for one token to sample.

use super::pick::{Draw, Pick};

/// Twin of `SampleRow` in `sample.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampleRow {
    seed: u64,
    position: u64,
    temperature: f32,
    top_p: f32,
    /// ln(min_p), where scores are relative to the best one.
    least_score: f32,
    top_k: u32,
    choice: u32,
    logits_row: u32,
    mode: u32,
    unused: u32,
}

const _: () = assert!(size_of::<SampleRow>() == SampleRow::BYTES);

const SKIP: u32 = 0;
const GREEDY: u32 = 1;
const DRAW: u32 = 2;

impl SampleRow {
    pub const BYTES: usize = 48;

    /// Nothing is sampled, and nothing written: the host samples, or the row is padding.
    pub const SKIP: SampleRow = SampleRow {
        seed: 0,
        position: 0,
        temperature: 1.0,
        top_p: 1.0,
        least_score: f32::NEG_INFINITY,
        top_k: 0,
        choice: 0,
        logits_row: 0,
        mode: SKIP,
        unused: 0,
    };

    /// Samples from row `logits_row` of the logits; several may sample from the same one. The
    /// kernel has no typical-p: it must be off.
    pub fn new(pick: Pick, logits_row: usize) -> Self {
        let logits_row = u32::try_from(logits_row).expect("a step has fewer rows");
        let Pick::Draw(draw) = pick else {
            return SampleRow { logits_row, mode: GREEDY, ..Self::SKIP };
        };
        let Draw { temperature, top_k, top_p, min_p, typical_p, seed, choice, position } = draw;
        assert!(typical_p >= 1.0, "the kernel cannot sample with typical_p {typical_p}");
        SampleRow {
            seed,
            position,
            temperature,
            top_p,
            least_score: if min_p > 0.0 { min_p.ln() } else { f32::NEG_INFINITY },
            // A vocabulary is smaller, so the largest keeps all.
            top_k: u32::try_from(top_k).unwrap_or(u32::MAX),
            choice,
            logits_row,
            mode: DRAW,
            unused: 0,
        }
    }

    /// As it is to lie on the device.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let words = [
            self.seed as u32,
            (self.seed >> 32) as u32,
            self.position as u32,
            (self.position >> 32) as u32,
            self.temperature.to_bits(),
            self.top_p.to_bits(),
            self.least_score.to_bits(),
            self.top_k,
            self.choice,
            self.logits_row,
            self.mode,
            self.unused,
        ];
        for (out, word) in bytes.chunks_exact_mut(4).zip(words) {
            out.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}
