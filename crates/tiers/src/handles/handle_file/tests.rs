//! Round trips, the documented bytes, and that no damage is believed.

use std::io::Read;

use proptest::prelude::*;
use serde_json::json;

use super::super::handle_id::HandleId;
use super::super::handle_manifest::TableManifest;
use super::super::handle_reader::HandleReader;
use super::super::handle_writer::HandleWriter;
use super::*;

fn manifest(tokens: Vec<u32>, page_bytes: u64, tables: Vec<Vec<u64>>) -> HandleManifest {
    let table = |pages: Vec<u64>| {
        let len = pages.last().map_or(0, |&page| 4 * page + 3);
        TableManifest { format: vec![9, pages.len() as u8], pages, page_tokens: 4, len }
    };
    HandleManifest {
        id: HandleId([7; 16]),
        name: "a name".to_owned(),
        owner: Some("owner".to_owned()),
        created_unix_ms: 5,
        expires_unix_ms: Some(6),
        is_pinned: true,
        is_imported: false,
        model: [1; 32],
        arithmetic: vec![2, 3],
        page_bytes,
        computed: tokens.len() as u64,
        row_kind_ends: (0..tokens.len() as u64).step_by(3).collect(),
        scaled_end: Some(1),
        cache_salt: "salt".to_owned(),
        kv_cache: Some(json!({ "policy": "h2o", "budget": [1, null, "x"] })),
        chunk_ends: (1..tokens.len() as u64).step_by(2).collect(),
        tables: tables.into_iter().map(table).collect(),
        tokens,
    }
}

fn pages_of(manifest: &HandleManifest) -> Vec<Vec<u8>> {
    let page = |number: u64| (0..manifest.page_bytes).map(move |byte| (byte * 7 + number) as u8);
    (0..manifest.pages()).map(|number| page(number).collect()).collect()
}

fn written(manifest: &HandleManifest, pages: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = HandleWriter::new(Vec::new(), manifest).expect("a manifest");
    pages.iter().for_each(|page| writer.write_page(page).expect("its page"));
    let bytes = writer.file_bytes();
    let file = writer.finish().expect("all pages");
    assert_eq!(file.len() as u64, bytes);
    file
}

fn read(source: impl Read) -> Result<(HandleManifest, Vec<Vec<u8>>), HandleFault> {
    let mut reader = HandleReader::new(source)?;
    let mut pages = Vec::new();
    while reader.pages_left() > 0 {
        let mut page = Vec::new();
        reader.read_page_growing(&mut page)?;
        pages.push(page);
    }
    let manifest = reader.manifest().clone();
    reader.finish()?;
    Ok((manifest, pages))
}

#[track_caller]
fn check_fault(bytes: &[u8], want: &str) {
    let fault = read(bytes).expect_err("a fault").to_string();
    assert!(fault.starts_with(want), "{fault}");
}

/// A header that is right in itself, with one of its numbers changed.
fn with_number(file: &[u8], at: usize, number: u64) -> Vec<u8> {
    let mut file = file.to_vec();
    file[at..at + 8].copy_from_slice(&number.to_le_bytes());
    sealed(file)
}

fn sealed(mut file: Vec<u8>) -> Vec<u8> {
    let checksum = XxHash3_64::oneshot(&file[..HEADER_CHECKSUM_AT]);
    file[HEADER_CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    file
}

/// The documented bytes, written down by hand.
#[test]
fn the_layout_is_as_documented() {
    let mut manifest = manifest(vec![258, 3], 5, vec![vec![1, 2], vec![]]);
    (manifest.row_kind_ends, manifest.chunk_ends) = (vec![1], vec![2]);
    let file = written(&manifest, &[b"page0".to_vec(), b"page1".to_vec()]);
    let json = serde_json::to_vec(&manifest).expect("JSON");
    let front = 72 + json.len() + 8 + 8 + 8 + 16 + 16;
    let numbers = |numbers: &[u64]| -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    };
    assert_eq!(file.len(), front + 8 + 2 * (5 + 8));
    assert_eq!(&file[..12], b"TERRHAND\x01\x00\x02\x00");
    assert_eq!(file[12..16], (json.len() as u32).to_le_bytes());
    assert_eq!(file[16..64], numbers(&[file.len() as u64, 5, 2, 2, 1, 1]));
    assert_eq!(file[64..72], XxHash3_64::oneshot(&file[..64]).to_le_bytes());
    let body = [json, vec![2, 1, 0, 0, 3, 0, 0, 0], numbers(&[1, 2, 2, 0, 1, 2])].concat();
    assert_eq!(file[72..front], body);
    assert_eq!(file[front..front + 8], XxHash3_64::oneshot(&body).to_le_bytes());
    let sums = [XxHash3_64::oneshot(b"page0"), XxHash3_64::oneshot_with_seed(1, b"page1")]
        .map(u64::to_le_bytes);
    let pages = [b"page0", &sums[0][..], b"page1", &sums[1]].concat();
    assert_eq!(file[front + 8..], pages);
}

#[test]
fn a_fault_says_what_is_wrong() {
    let manifest = manifest(vec![1; 10], 100, vec![vec![0, 1]]);
    let file = written(&manifest, &pages_of(&manifest));
    let bytes = file.len();
    check_fault(&[], "torn: it ends after 0 of 72 bytes");
    check_fault(&file[..71], "torn: it ends after 71 of 72 bytes");
    check_fault(&file[..bytes - 1], &format!("torn: it ends after {} of {bytes}", bytes - 1));
    check_fault(&[&file[..], b"x"].concat(), &format!("bytes follow after {bytes}"));
    check_fault(&[0; 100], "not the file of a kv cache");
    let mut other = file.clone();
    other[8..10].copy_from_slice(&999u16.to_le_bytes());
    check_fault(&sealed(other), "format version 999, this server reads version 1");
    let damaged = |at: usize| {
        let mut file = file.clone();
        file[at] ^= 1;
        file
    };
    check_fault(&damaged(40), "the header is damaged");
    check_fault(&damaged(80), "the manifest is damaged");
    check_fault(&damaged(bytes - 9), "page 1 is damaged");
    check_fault(&damaged(bytes - 109), "page 0 is damaged");
    let exchanged = [&file[..bytes - 216], &file[bytes - 108..], &file[bytes - 216..bytes - 108]];
    check_fault(&exchanged.concat(), "page 0 is damaged");
    check_fault(&with_number(&file, 40, 1 << 60), "inconsistent manifest: tokens: 11529");
    check_fault(&with_number(&file, 32, u64::MAX), "inconsistent manifest: ");
    check_fault(&with_number(&file, 16, 7), "inconsistent manifest: 7 bytes are not those of 2");
}

#[test]
fn pages_come_in_their_number_and_size() {
    let manifest = manifest(vec![1; 10], 100, vec![vec![0, 1]]);
    let mut writer = HandleWriter::new(Vec::new(), &manifest).expect("a manifest");
    let fault = writer.write_page(&[0; 99]).expect_err("short").to_string();
    assert_eq!(fault, "a page of 99 bytes, and its pages have 100");
    writer.write_page(&[0; 100]).expect("a page");
    let fault = writer.finish().expect_err("one is missing").to_string();
    assert_eq!(fault, "1 of 2 pages are done");

    let file = written(&manifest, &pages_of(&manifest));
    let mut reader = HandleReader::new(&file[..]).expect("a manifest");
    let fault = reader.read_page(&mut [0; 101]).expect_err("long").to_string();
    assert_eq!(fault, "a page of 101 bytes, and its pages have 100");
    reader.read_page(&mut [0; 100]).expect("a page");
    reader.read_page(&mut [0; 100]).expect("a page");
    let fault = reader.read_page(&mut [0; 100]).expect_err("no more").to_string();
    assert_eq!(fault, "page 2, and it has 2 pages");
}

#[test]
fn a_manifest_that_disagrees_with_its_header_is_refused() {
    let good = manifest(vec![1; 10], 100, vec![vec![0, 1]]);
    let mut front = Front::encode(&good).expect("a manifest");
    front.bytes.truncate(front.bytes.len() - CHECKSUM_BYTES);
    let change = |from: &str, to: &str| {
        let mut bytes = front.bytes.clone();
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes());
        bytes[at.expect("it is there")..][..to.len()].copy_from_slice(to.as_bytes());
        let checksum = XxHash3_64::oneshot(&bytes[HEADER_BYTES..]);
        [bytes, checksum.to_le_bytes().to_vec(), vec![0; 216]].concat()
    };
    let page_bytes = change("\"page_bytes\":100", "\"page_bytes\":101");
    check_fault(
        &page_bytes,
        "inconsistent manifest: bytes of a page: 101, and the header says 100",
    );
    let table = change("\"len\":7", "\"len\":1");
    check_fault(
        &table,
        "inconsistent manifest: table 0: page 1, and 1 tokens in pages of 4 have 1",
    );
    check_fault(&change("\"tables\":[", "\"tablex\":["), "inconsistent manifest: missing field");
}

/// Gives what it has, and remembers how much room it was offered beyond twice of that.
struct Offered<'a> {
    rest: &'a [u8],
    given: usize,
    most: usize,
}

impl Read for &mut Offered<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        self.most = self.most.max(bytes.len().saturating_sub(2 * self.given));
        let count = self.rest.read(bytes)?;
        self.given += count;
        Ok(count)
    }
}

/// Whatever a header claims, memory is taken as bytes arrive.
#[test]
fn large_claims_take_no_memory() {
    let manifest = manifest(vec![1; 10], 100, vec![vec![0, 1]]);
    let front = Front::encode(&manifest).expect("a manifest");
    let claims = [
        Header { tokens: MAX_TOKENS, ..front.header },
        Header { row_kind_ends: MAX_TOKENS, ..front.header },
        Header { chunk_ends: MAX_TOKENS, ..front.header },
        Header { pages: 1 << 50, page_bytes: 1, ..front.header },
        Header { json_bytes: MAX_JSON_BYTES, ..front.header },
        Header { page_bytes: MAX_PAGE_BYTES, ..front.header },
    ];
    for mut header in claims {
        header.file_bytes = header.expected_file_bytes().expect("a length");
        let file = [&header.encode(), &front.bytes[HEADER_BYTES..], &[0; 5000]].concat();
        let mut source = Offered { rest: &file, given: 0, most: 0 };
        read(&mut source).expect_err("torn");
        assert!(source.most <= 64 << 10, "{header:?}: room for {} bytes", source.most);
    }
    let mut claimed = manifest;
    claimed.page_bytes = MAX_PAGE_BYTES;
    let front = Front::encode(&claimed).expect("a manifest");
    let file = [&front.bytes[..], &[0; 5000]].concat();
    let mut source = Offered { rest: &file, given: 0, most: 0 };
    read(&mut source).expect_err("torn");
    assert!(source.most <= 64 << 10, "room for {} bytes", source.most);
}

fn tables() -> impl Strategy<Value = Vec<Vec<u64>>> {
    let pages = prop::collection::btree_set(0u64..40, 0..4);
    prop::collection::vec(pages.prop_map(|pages| pages.into_iter().collect()), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn what_was_written_is_read_and_no_damage_is_believed(
        tokens in prop::collection::vec(any::<u32>(), 0..20),
        page_bytes in 1u64..40,
        tables in tables(),
    ) {
        let manifest = manifest(tokens, page_bytes, tables);
        let pages = pages_of(&manifest);
        let mut file = written(&manifest, &pages);
        prop_assert_eq!(read(&file[..]).expect("whole"), (manifest, pages));
        for bit in 0..file.len() * 8 {
            file[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(read(&file[..]).is_err(), "bit {bit}");
            file[bit / 8] ^= 1 << (bit % 8);
        }
        for end in 0..file.len() {
            let torn = matches!(read(&file[..end]), Err(HandleFault::Torn { .. }));
            prop_assert!(torn, "the first {end} bytes");
        }
    }

    #[test]
    fn no_bytes_make_it_panic(
        bytes in prop::collection::vec(any::<u8>(), HEADER_BYTES..400),
        numbers in prop::collection::vec(0u64..30, 6),
    ) {
        let mut header = bytes.clone();
        header[..12].copy_from_slice(b"TERRHAND\x01\x00\x01\x00");
        header[12..16].copy_from_slice(&20u32.to_le_bytes());
        let small: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        header[16..64].copy_from_slice(&small);
        for bytes in [bytes, sealed(header)] {
            prop_assert!(read(&bytes[..]).is_err());
        }
    }
}
