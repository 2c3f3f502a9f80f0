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
    let (pages, copies) = (11, random.below(8));
    let mut got: Vec<u8> = (0..pages * page_bytes).map(|_| random.bits() as u8).collect();
    let mut want: Vec<Vec<u8>> = got.chunks_exact(page_bytes).map(<[u8]>::to_vec).collect();
    let pairs: Vec<[usize; 2]> =
        (0..copies).map(|_| [random.below(pages), random.below(pages)]).collect();
    for &[from, to] in &pairs {
        want[to] = want[from].clone();
    }
    let pairs: Vec<i32> = pairs.into_iter().flatten().map(|page| page as i32).collect();
    let view = ViewMut::of(&mut got, [pages, page_bytes]);
    copy_pages::copy_pages(view, View::of(&pairs, [copies, 2]));
    let case = format!("{copies} copies of {page_bytes} bytes");
    report.compare_exactly("copy_pages", case, &got, &want.concat());
}
