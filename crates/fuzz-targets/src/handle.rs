//! The file of a named KV cache.

use serde_json::Deserializer;
use serde_json::value::RawValue;
use terrace_tiers::HandleReader;
use twox_hash::XxHash3_64;

const HEADER_BYTES: usize = 72;
const MENDED_BYTES: usize = 1 << 20;

/// As it is, and with lengths and checksums put right: nothing else gets behind them.
pub fn run(input: &[u8]) -> bool {
    let accepted = read(input);
    mended(input).is_some_and(|mended| read(&mended)) || accepted
}

fn read(input: &[u8]) -> bool {
    let Ok(mut reader) = HandleReader::new(input) else { return false };
    assert!(reader.manifest().check().is_ok(), "what is read is consistent");
    let tokens = reader.manifest().tokens.len();
    assert!(4 * tokens as u64 <= reader.file_bytes(), "{tokens} tokens");
    let mut page = Vec::new();
    while reader.pages_left() > 0 {
        if reader.read_page_growing(&mut page).is_err() {
            return false;
        }
        assert_eq!(page.len() as u64, reader.manifest().page_bytes);
    }
    reader.finish().is_ok()
}

/// The lengths of JSON and file, and all checksums, made to agree with the rest.
fn mended(input: &[u8]) -> Option<Vec<u8>> {
    let json = Deserializer::from_slice(input.get(HEADER_BYTES..)?);
    let mut json = json.into_iter::<&RawValue>();
    json.next()?.ok()?;
    let json_bytes = json.byte_offset();
    let mut file = input.to_vec();
    file[12..16].copy_from_slice(&u32::try_from(json_bytes).ok()?.to_le_bytes());
    let number = |at: usize| {
        let bytes = input[at..at + 8].try_into().expect("8 bytes");
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    };
    let [page_bytes, pages, tokens] = [number(24)?, number(32)?, number(40)?];
    let tables = usize::from(u16::from_le_bytes([input[10], input[11]]));
    let lists = number(48)?.checked_add(number(56)?)?.checked_add(tables)?.checked_add(pages)?;
    let numbers_bytes = lists.checked_mul(8)?.checked_add(tokens.checked_mul(4)?)?;
    let front_end = numbers_bytes.checked_add(HEADER_BYTES + json_bytes)?;
    let page_end = page_bytes.checked_add(8)?;
    let file_bytes = front_end.checked_add(8)?.checked_add(pages.checked_mul(page_end)?)?;
    if file_bytes > MENDED_BYTES {
        return None;
    }
    file.resize(file_bytes, 0);
    file[16..24].copy_from_slice(&(file_bytes as u64).to_le_bytes());
    let header = XxHash3_64::oneshot(&file[..64]);
    file[64..HEADER_BYTES].copy_from_slice(&header.to_le_bytes());
    let manifest = XxHash3_64::oneshot(&file[HEADER_BYTES..front_end]);
    file[front_end..front_end + 8].copy_from_slice(&manifest.to_le_bytes());
    for (place, page) in file[front_end + 8..].chunks_exact_mut(page_end).enumerate() {
        let (page, checksum) = page.split_at_mut(page_bytes);
        checksum.copy_from_slice(&XxHash3_64::oneshot_with_seed(place as u64, page).to_le_bytes());
    }
    Some(file)
}
