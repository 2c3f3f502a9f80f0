//! Holds and bytes against a plain model, over plain memory in several segments.

use proptest::prelude::*;

use super::*;
use crate::device::Device;

const PAGE_BYTES: usize = 5;

fn pages(count: usize, segment_bytes: usize) -> Arc<PinnedPages> {
    let coming = PinnedPages::begin_in_segments(&Device::Cpu, PAGE_BYTES, count, segment_bytes);
    coming.expect("threads start").wait().expect("little memory")
}

enum Held {
    Read(PageRead),
    Write(PageWrite),
}

/// What each page must hold, and who has it.
struct Model {
    pages: Arc<PinnedPages>,
    bytes: Vec<u8>,
    held: Vec<Held>,
}

impl Model {
    fn check(&self) {
        for (page, &byte) in self.bytes.iter().enumerate() {
            let [readers, writers] = self.holders(page);
            assert!(writers == 0 || (writers, readers) == (1, 0), "page {page}");
            match self.pages.try_read(page) {
                Some(read) => assert_eq!((&*read, writers), (&[byte; PAGE_BYTES][..], 0)),
                None => assert_eq!(writers, 1, "page {page} cannot be read"),
            }
            let is_free = self.pages.try_write(page).is_some();
            assert_eq!(is_free, readers + writers == 0, "page {page} to write");
        }
    }

    fn holders(&self, page: usize) -> [usize; 2] {
        let reads = |held: &&Held| matches!(held, Held::Read(read) if read.page() == page);
        let writes = |held: &&Held| matches!(held, Held::Write(write) if write.page() == page);
        [self.held.iter().filter(reads).count(), self.held.iter().filter(writes).count()]
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_page_has_readers_or_one_writer(
        count in 1usize..8,
        segment_bytes in 0usize..30,
        steps in prop::collection::vec((0u8..3, any::<prop::sample::Index>(), any::<u8>()), 0..40),
    ) {
        let pages = pages(count, segment_bytes);
        prop_assert_eq!((pages.len(), pages.page_bytes()), (count, PAGE_BYTES));
        let mut model = Model { pages, bytes: vec![0; count], held: Vec::new() };
        for (kind, choice, byte) in steps {
            let page = choice.index(count);
            match kind {
                0 => model.held.extend(model.pages.try_read(page).map(Held::Read)),
                1 => {
                    if let Some(mut write) = model.pages.try_write(page) {
                        write.fill(byte);
                        model.bytes[page] = byte;
                        model.held.push(Held::Write(write));
                    }
                }
                _ if model.held.is_empty() => {}
                _ => drop(model.held.swap_remove(choice.index(model.held.len()))),
            }
            model.check();
        }
    }
}

#[test]
fn a_writer_waits_for_readers_and_a_reader_for_the_writer() {
    let pages = pages(1, 100);
    let read = pages.read(0);
    let filler = {
        let pages = Arc::clone(&pages);
        std::thread::spawn(move || pages.write(0).fill(7))
    };
    assert_eq!(*read, [0; PAGE_BYTES], "nobody wrote beside the reader");
    drop(read);
    filler.join().expect("it writes");
    let mut write = pages.write(0);
    let reader = {
        let pages = Arc::clone(&pages);
        std::thread::spawn(move || pages.read(0).to_vec())
    };
    write.fill(9);
    drop(write);
    assert_eq!(reader.join().expect("it reads"), [9; PAGE_BYTES]);
}

#[test]
fn no_pages_take_nothing_and_pages_that_nobody_waits_for_are_given_up() {
    assert!(pages(0, 100).is_empty());
    drop(PinnedPages::begin(&Device::Cpu, PAGE_BYTES, 1000).expect("threads start"));
}

#[test]
fn more_than_there_is_is_an_error_with_its_size() {
    let coming = PinnedPages::begin_in_segments(&Device::Cpu, usize::MAX / 2, 3, usize::MAX);
    let error = coming.expect("threads start").wait().err().expect("refused").to_string();
    assert!(error.contains("pages in host memory"), "{error}");
}
