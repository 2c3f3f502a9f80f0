//! Pages between host memory and a device: gather_pages, scatter_pages.

use std::ops::Range;
use std::sync::Arc;

use terrace_device::Device;
use terrace_device::cuda::PinnedPages;

use super::placed::Placed;
use super::{Report, SIZES, SplitMix};
use crate::error::Error;
use crate::pages::move_pages::{MoveWay, PageMover, PageMoves};

/// Pages of the host, in segments of three, and of the device.
const HOST_PAGES: usize = 10;
const SEGMENT_PAGES: usize = 3;
const DEVICE_PAGES: usize = 12;

/// By every way that the device has.
pub(super) fn check(
    device: &Device,
    random: &mut SplitMix,
    report: &mut Report,
) -> Result<(), Error> {
    let mut movers = Vec::new();
    for way in MoveWay::all(device) {
        movers.push((way, PageMover::new(device, way, HOST_PAGES)?));
    }
    for op in ["gather_pages", "scatter_pages"] {
        for page_bytes in SIZES.into_iter().chain([4096, 70_000, 300_001]) {
            for (way, mover) in &mut movers {
                if !report.skips(op) {
                    move_pages(device, *way, mover, random, report, (op, page_bytes))?;
                }
            }
        }
    }
    Ok(())
}

fn move_pages(
    device: &Device,
    way: MoveWay,
    mover: &mut PageMover,
    random: &mut SplitMix,
    report: &mut Report,
    (op, page_bytes): (&'static str, usize),
) -> Result<(), Error> {
    let (segment, count) = (SEGMENT_PAGES * page_bytes, random.below(HOST_PAGES + 1));
    let host = PinnedPages::begin_in_segments(device, page_bytes, HOST_PAGES, segment)?.wait()?;
    let mut bytes = |pages: usize| {
        let bytes = (0..pages * page_bytes).map(|_| random.bits() as u8);
        bytes.collect::<Vec<u8>>()
    };
    let (mut host_want, mut device_want) = (bytes(HOST_PAGES), bytes(DEVICE_PAGES));
    for (page, bytes) in host_want.chunks_exact(page_bytes).enumerate() {
        host.write(page).copy_from_slice(bytes);
    }
    let mut placed = Placed::of(device, &device_want, [DEVICE_PAGES, page_bytes]);
    let (parts, pairs) = (random_parts(random, page_bytes), random_pairs(random, count));
    for part in &parts {
        for &(stored, page) in &pairs {
            let [stored, page] = [stored, page].map(|page| at(page, page_bytes, part));
            match op {
                "gather_pages" => device_want[page].copy_from_slice(&host_want[stored]),
                _ => host_want[stored].copy_from_slice(&device_want[page]),
            }
        }
    }
    let transfer = mover.start(placed.view_mut(), moves_of(&host, op, &pairs), &parts)?;
    for part in 0..parts.len() {
        transfer.wait(part)?;
    }
    drop(mover.finish(transfer)?);
    let stored = (0..HOST_PAGES).flat_map(|page| host.read(page).to_vec());
    let got: Vec<u8> = placed.bytes().into_iter().chain(stored).collect();
    let want = [device_want, host_want].concat();
    let case = format!("{way}, {count} pages of {page_bytes} bytes in {} parts", parts.len());
    report.compare_exactly(op, case, &got, &want);
    Ok(())
}

fn moves_of(host: &Arc<PinnedPages>, op: &str, pairs: &[(usize, usize)]) -> PageMoves {
    let pairs = pairs.iter();
    match op {
        "gather_pages" => {
            PageMoves::In(pairs.map(|&(stored, page)| (host.read(stored), page)).collect())
        }
        _ => PageMoves::Out(pairs.map(|&(stored, page)| (host.write(stored), page)).collect()),
    }
}

fn at(page: usize, page_bytes: usize, part: &Range<usize>) -> Range<usize> {
    page * page_bytes + part.start..page * page_bytes + part.end
}

/// Pages of the host and of the device, each at most once.
fn random_pairs(random: &mut SplitMix, count: usize) -> Vec<(usize, usize)> {
    let (stored, pages) = (random.shuffled(HOST_PAGES), random.shuffled(DEVICE_PAGES));
    stored.into_iter().zip(pages).take(count).collect()
}

/// A few runs of a page behind each other, some of them empty; bytes outside stay as they are.
fn random_parts(random: &mut SplitMix, page_bytes: usize) -> Vec<Range<usize>> {
    let mut cuts: Vec<usize> = (0..5).map(|_| random.below(page_bytes + 1)).collect();
    cuts.sort_unstable();
    // Where kernels copy vectors, and where they cannot.
    if random.below(2) == 0 {
        cuts.iter_mut().for_each(|cut| *cut -= *cut % 16);
    }
    cuts.windows(2).map(|ends| ends[0]..ends[1]).collect()
}
