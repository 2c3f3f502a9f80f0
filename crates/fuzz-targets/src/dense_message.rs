//! Parts of dense weights, as messages bring them, and the weights that they make up.
//!
//! An input is the bytes that weights may have at most (4, little-endian), then messages, each
//! behind its length (2). A simple model says what the assembler must answer to every part. What it
//! holds cannot be asked for: a limit is small here, so that memory which a header claims beyond it
//! ends a fuzzer's run.

use std::collections::BTreeMap;

use terrace_embedding::{
    DenseAssembler, DenseFault, DensePart, DenseProgress, DenseWeights, DenseWhole,
};
use twox_hash::XxHash3_64;

/// A larger limit is taken for this one.
const LIMIT_MOST: u32 = 1 << 16;
const HASH_AT: usize = 24;

/// As they are, and with the hashes of whole weights put right: nobody guesses those.
pub fn run(input: &[u8]) -> bool {
    let Some((limit, rest)) = input.split_first_chunk() else { return false };
    let limit = u32::from_le_bytes(*limit).min(LIMIT_MOST) as usize;
    let messages = messages(rest);
    let accepted = assemble(limit, &messages);
    let mended = with_hashes(&messages);
    let mended: Vec<&[u8]> = mended.iter().map(Vec::as_slice).collect();
    assemble(limit, &mended) || accepted
}

/// The last one may be shorter than it says.
fn messages(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut messages = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
        let (message, after) = after.split_at(length);
        messages.push(message);
        rest = after;
    }
    messages
}

/// Gives all parts in order, and once more from the last to the first.
fn assemble(limit: usize, messages: &[&[u8]]) -> bool {
    let mut assembler = DenseAssembler::new(limit);
    let mut model = Model { limit: limit as u64, ..Model::default() };
    let mut is_any_whole = false;
    for message in messages.iter().chain(messages.iter().rev()) {
        let Ok(part) = DensePart::decode(message) else { continue };
        assert!(part.begin() + part.piece.len() as u64 <= part.whole.bytes, "{part:?}");
        let found = assembler.add(&part);
        assert_eq!(found, model.add(&part), "{:?} part {}", part.whole, part.part);
        assert_eq!(assembler.is_empty(), model.assembly.is_none());
        if let Ok(DenseProgress::Whole(weights)) = found {
            assert!(weights.safetensors.len() <= limit);
            split_again(&weights, part.piece.len());
            is_any_whole = true;
        }
    }
    is_any_whole
}

/// Weights that were put together, in parts of another size, make the same weights.
fn split_again(weights: &DenseWeights, piece_bytes: usize) {
    let message_bytes = 40 + 1 + piece_bytes / 2;
    let mut assembler = DenseAssembler::new(weights.safetensors.len());
    let mut last = DenseProgress::Nothing;
    for message in DensePart::split(weights.version, &weights.safetensors, message_bytes) {
        assert!(message.len() <= message_bytes);
        let part = DensePart::decode(&message).expect("a part that was just written");
        last = assembler.add(&part).expect("all parts are of one version");
    }
    assert_eq!(last, DenseProgress::Whole(weights.clone()));
}

/// Copies of the messages; those of weights of which every part is there get the right hash.
fn with_hashes(messages: &[&[u8]]) -> Vec<Vec<u8>> {
    let parts: Vec<_> = messages.iter().map(|message| DensePart::decode(message).ok()).collect();
    let mut publications: Vec<(DenseWhole, Pieces<'_>)> = Vec::new();
    for part in parts.iter().flatten() {
        let place = publications.iter().position(|(whole, _)| *whole == part.whole);
        let place = place.unwrap_or_else(|| {
            publications.push((part.whole, Pieces::new()));
            publications.len() - 1
        });
        publications[place].1.entry(part.part).or_insert(part.piece);
    }
    let whole = publications.iter().filter(|(whole, pieces)| pieces.len() == whole.parts as usize);
    let hashes: Vec<(&DenseWhole, u64)> =
        whole.map(|(whole, pieces)| (whole, XxHash3_64::oneshot(&joined(pieces)))).collect();
    let mended = messages.iter().zip(&parts).map(|(message, part)| {
        let mut message = message.to_vec();
        let of_part = part.and_then(|part| hashes.iter().find(|(whole, _)| **whole == part.whole));
        if let Some((_, hash)) = of_part {
            message[HASH_AT..HASH_AT + 8].copy_from_slice(&hash.to_le_bytes());
        }
        message
    });
    mended.collect()
}

/// Of one publication, by part.
type Pieces<'a> = BTreeMap<u32, &'a [u8]>;

fn joined(pieces: &Pieces<'_>) -> Vec<u8> {
    pieces.values().copied().flatten().copied().collect()
}

/// What an assembler has to answer.
#[derive(Default)]
struct Model<'a> {
    limit: u64,
    assembly: Option<(DenseWhole, Pieces<'a>)>,
    given_version: Option<u64>,
}

impl<'a> Model<'a> {
    fn add(&mut self, part: &DensePart<'a>) -> Result<DenseProgress, DenseFault> {
        let DenseWhole { version, bytes, hash, parts } = part.whole;
        let kept_version = self.assembly.as_ref().map(|(whole, _)| whole.version);
        if self.given_version >= Some(version) || kept_version > Some(version) {
            return Ok(DenseProgress::Nothing);
        }
        if bytes > self.limit {
            return Err(DenseFault::TooLarge { bytes, bytes_most: self.limit as usize });
        }
        if self.assembly.as_ref().is_none_or(|(whole, _)| *whole != part.whole) {
            self.assembly = Some((part.whole, Pieces::new()));
        }
        let (_, pieces) = self.assembly.as_mut().expect("it was just put there");
        if pieces.contains_key(&part.part) {
            return Ok(DenseProgress::Nothing);
        }
        pieces.insert(part.part, part.piece);
        if pieces.len() < parts as usize {
            return Ok(DenseProgress::Kept);
        }
        let safetensors = joined(pieces);
        self.assembly = None;
        if XxHash3_64::oneshot(&safetensors) != hash {
            return Err(DenseFault::Hash { version });
        }
        self.given_version = Some(version);
        Ok(DenseProgress::Whole(DenseWeights { version, safetensors }))
    }
}
