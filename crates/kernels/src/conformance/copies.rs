//! Ops that only move bytes: gather_rows, copy_pages.

use terrace_device::{View, ViewMut};

use super::{Report, SIZES, SplitMix};
use crate::elementwise::gather_rows;
use crate::pages::copy_pages;

pub(super) fn check(random: &mut SplitMix, report: &mut Report) {
    for dim in SIZES {
        gather_rows(random, report, dim);
    }
    for page_bytes in SIZES {
        copy_pages(random, report, page_bytes);
    }
}

fn gather_rows(random: &mut SplitMix, report: &mut Report, dim: usize) {
    if report.skips("gather_rows") {
        return;
    }
    let (tokens, picked) = (13, 1 + random.below(20));
    let x = random.numbers(tokens * dim);
    let rows: Vec<i32> = (0..picked).map(|_| random.below(tokens) as i32).collect();
    let mut got = vec![f32::NAN; picked * dim];
    let out = ViewMut::of(&mut got, [picked, dim]);
    gather_rows::gather_rows(View::of(&x, [tokens, dim]), View::of(&rows, [picked]), out);
    let want: Vec<f32> =
        rows.iter().flat_map(|&row| &x[row as usize * dim..][..dim]).copied().collect();
    report.compare_exactly("gather_rows", format!("{picked} of {tokens}x{dim}"), &got, &want);
}

fn copy_pages(random: &mut SplitMix, report: &mut Report, page_bytes: usize) {
    if report.skips("copy_pages") {
        return;
    }
    let PageCopies { mut pages, pairs, want } = PageCopies::random(random, page_bytes);
    let (count, copies) = (pages.len() / page_bytes, pairs.len() / 2);
    let view = ViewMut::of(&mut pages, [count, page_bytes]);
    copy_pages::copy_pages(view, View::of(&pairs, [copies, 2]));
    let case = format!("{copies} copies of {page_bytes} bytes");
    report.compare_exactly("copy_pages", case, &pages, &want);
}

/// A few pages and pairs to copy among them, in order: a pair may read what an earlier one wrote.
pub(super) struct PageCopies {
    pub(super) pages: Vec<u8>,
    /// From and to.
    pub(super) pairs: Vec<i32>,
    pub(super) want: Vec<u8>,
}

impl PageCopies {
    pub(super) fn random(random: &mut SplitMix, page_bytes: usize) -> Self {
        let (count, copies) = (11, random.below(8));
        let pages: Vec<u8> = (0..count * page_bytes).map(|_| random.bits() as u8).collect();
        let mut want = pages.clone();
        let mut pairs = Vec::new();
        for _ in 0..copies {
            let (from, to) = (random.below(count), random.below(count));
            want.copy_within(from * page_bytes..(from + 1) * page_bytes, to * page_bytes);
            pairs.extend([from as i32, to as i32]);
        }
        PageCopies { pages, pairs, want }
    }
}
