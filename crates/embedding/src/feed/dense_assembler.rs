//! Parts of dense weights, put together.
//!
//! Parts may come in any order, twice, and of several versions at once: only those of the newest
//! version are kept, and a version that was given once, or is older than one, is not given again.
//! So versions of one model must grow. Where two publications have the same version and are not the
//! same, the one that came later drops the other's parts.
//!
//! It never holds more than the bytes that are allowed, and a flag for each part.

use super::dense_message::{DenseFault, DensePart, DenseWhole, dense_hash};

pub struct DenseAssembler {
    bytes_most: usize,
    assembly: Option<Assembly>,
    given_version: Option<u64>,
}

struct Assembly {
    whole: DenseWhole,
    bytes: Vec<u8>,
    /// By part.
    is_here: Vec<bool>,
    parts_missing: u32,
}

/// What a part has led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DenseProgress {
    /// It was here before, or is of a version that is not wanted any more.
    Nothing,
    /// It is kept until the others come.
    Kept,
    Whole(DenseWeights),
}

/// All bytes of one version, with the hash that was announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenseWeights {
    pub version: u64,
    pub safetensors: Vec<u8>,
}

impl DenseAssembler {
    pub fn new(bytes_most: usize) -> Self {
        DenseAssembler { bytes_most, assembly: None, given_version: None }
    }

    /// Whether no part is kept.
    pub fn is_empty(&self) -> bool {
        self.assembly.is_none()
    }

    /// After an error of a hash the parts are gone, after any other nothing has changed.
    pub fn add(&mut self, part: &DensePart<'_>) -> Result<DenseProgress, DenseFault> {
        let DenseWhole { version, bytes, .. } = part.whole;
        let newest = self.assembly.as_ref().map(|assembly| assembly.whole.version);
        let is_given = self.given_version.is_some_and(|given| version <= given);
        if is_given || newest.is_some_and(|newest| version < newest) {
            return Ok(DenseProgress::Nothing);
        }
        let bytes_most = self.bytes_most;
        let total = usize::try_from(bytes).ok().filter(|&total| total <= bytes_most);
        let total = total.ok_or(DenseFault::TooLarge { bytes, bytes_most })?;
        let same = self.assembly.take().filter(|assembly| assembly.whole == part.whole);
        let mut assembly = same.unwrap_or_else(|| Assembly::new(part.whole, total));
        if !assembly.add(part) {
            self.assembly = Some(assembly);
            return Ok(DenseProgress::Nothing);
        }
        if assembly.parts_missing > 0 {
            self.assembly = Some(assembly);
            return Ok(DenseProgress::Kept);
        }
        if dense_hash(&assembly.bytes) != part.whole.hash {
            return Err(DenseFault::Hash { version });
        }
        self.given_version = Some(version);
        Ok(DenseProgress::Whole(DenseWeights { version, safetensors: assembly.bytes }))
    }
}

impl Assembly {
    fn new(whole: DenseWhole, total: usize) -> Self {
        let is_here = vec![false; whole.parts as usize];
        Assembly { whole, bytes: vec![0; total], is_here, parts_missing: whole.parts }
    }

    /// Whether it was not here before. A part was checked against its whole when it was decoded.
    fn add(&mut self, part: &DensePart<'_>) -> bool {
        let is_new = !std::mem::replace(&mut self.is_here[part.part as usize], true);
        if is_new {
            let begin = part.begin() as usize;
            self.bytes[begin..begin + part.piece.len()].copy_from_slice(part.piece);
            self.parts_missing -= 1;
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    const MESSAGE_BYTES: usize = 48;

    fn weights(version: u64, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at as u64 * 7 + version) as u8).collect()
    }

    fn parts(version: u64, bytes: usize) -> Vec<Vec<u8>> {
        DensePart::split(version, &weights(version, bytes), MESSAGE_BYTES).collect()
    }

    fn add(assembler: &mut DenseAssembler, message: &[u8]) -> Result<DenseProgress, DenseFault> {
        assembler.add(&DensePart::decode(message).expect("a part"))
    }

    fn whole(version: u64, bytes: usize) -> Result<DenseProgress, DenseFault> {
        let safetensors = weights(version, bytes);
        Ok(DenseProgress::Whole(DenseWeights { version, safetensors }))
    }

    #[test]
    fn a_newer_version_drops_the_parts_of_an_older_one() {
        let mut assembler = DenseAssembler::new(100);
        let [old, new] = [1, 2].map(|version| parts(version, 16));
        assert_eq!(add(&mut assembler, &old[0]), Ok(DenseProgress::Kept));
        assert_eq!(add(&mut assembler, &new[1]), Ok(DenseProgress::Kept));
        assert_eq!(add(&mut assembler, &old[1]), Ok(DenseProgress::Nothing));
        assert_eq!(add(&mut assembler, &new[0]), whole(2, 16));
        assert!(assembler.is_empty());
        for message in old.iter().chain(&new) {
            assert_eq!(add(&mut assembler, message), Ok(DenseProgress::Nothing));
        }
    }

    #[test]
    fn weights_that_are_too_large_leave_what_is_here() {
        let mut assembler = DenseAssembler::new(16);
        let small = parts(1, 16);
        assert_eq!(add(&mut assembler, &small[0]), Ok(DenseProgress::Kept));
        let fault = DenseFault::TooLarge { bytes: 17, bytes_most: 16 };
        assert_eq!(add(&mut assembler, &parts(2, 17)[0]), Err(fault));
        assert_eq!(add(&mut assembler, &small[1]), whole(1, 16));
    }

    #[test]
    fn a_changed_byte_is_found_and_the_version_can_be_sent_again() {
        let mut assembler = DenseAssembler::new(100);
        let good = parts(3, 16);
        let mut changed = good[0].clone();
        *changed.last_mut().expect("a piece") ^= 1;
        assert_eq!(add(&mut assembler, &changed), Ok(DenseProgress::Kept));
        assert_eq!(add(&mut assembler, &good[1]), Err(DenseFault::Hash { version: 3 }));
        assert!(assembler.is_empty());
        assert_eq!(add(&mut assembler, &good[0]), Ok(DenseProgress::Kept));
        assert_eq!(add(&mut assembler, &good[1]), whole(3, 16));
    }

    #[test]
    fn the_later_of_two_publications_of_a_version_is_put_together() {
        let mut assembler = DenseAssembler::new(100);
        assert_eq!(add(&mut assembler, &parts(1, 24)[0]), Ok(DenseProgress::Kept));
        let later = parts(1, 16);
        assert_eq!(add(&mut assembler, &later[1]), Ok(DenseProgress::Kept));
        assert_eq!(add(&mut assembler, &later[0]), whole(1, 16));
    }

    proptest! {
        /// Of versions whose parts come in any order and more than once, each is given at most
        /// once, whole, and the newest always.
        #[test]
        fn whatever_the_order_the_newest_version_comes_out_whole(
            sizes in prop::collection::vec(1usize..60, 1..4),
            picks in prop::collection::vec(any::<Index>(), 0..60),
        ) {
            let sent: Vec<_> = (0u64..).zip(&sizes).flat_map(|(v, &size)| parts(v, size)).collect();
            let picked = picks.iter().map(|pick| pick.get(&sent));
            let mut assembler = DenseAssembler::new(60);
            let mut given = Vec::new();
            // All of them once more at the end, so that none is missing.
            for message in picked.chain(&sent) {
                if let DenseProgress::Whole(found) = add(&mut assembler, message).expect("a part") {
                    prop_assert_eq!(
                        &found.safetensors,
                        &weights(found.version, sizes[found.version as usize])
                    );
                    given.push(found.version);
                }
            }
            prop_assert!(given.is_sorted_by(|a, b| a < b), "{:?}", given);
            prop_assert_eq!(given.last(), Some(&(sizes.len() as u64 - 1)));
            prop_assert!(assembler.is_empty());
        }
    }
}
