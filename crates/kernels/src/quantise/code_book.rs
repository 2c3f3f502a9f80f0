//! Codes from a table, times the largest size in the row: the formats of bitsandbytes.
//!
//! A number takes the code whose value is nearest; halfway between two it takes the lower. With
//! four bits even numbers of the row have the upper halves of the bytes, odd ones the lower.

use std::sync::LazyLock;

use super::code_table::CodeTable;
use super::nibbles::pack_nibbles;

pub(super) struct CodeBook {
    /// What each code stands for.
    values: Vec<f32>,
    /// The codes in the order of their values.
    ascending: Vec<u8>,
    /// Halfway between neighbours in that order.
    borders: Vec<f32>,
}

impl CodeBook {
    pub(super) fn dynamic8() -> &'static CodeBook {
        static BOOK: LazyLock<CodeBook> = LazyLock::new(|| CodeBook::new(dynamic_values()));
        &BOOK
    }

    pub(super) fn float4() -> &'static CodeBook {
        static BOOK: LazyLock<CodeBook> = LazyLock::new(|| CodeBook::new(float4_values()));
        &BOOK
    }

    fn new(values: Vec<f32>) -> CodeBook {
        let mut ascending: Vec<u8> = (0..values.len()).map(|code| code as u8).collect();
        ascending.sort_by(|a, b| values[usize::from(*a)].total_cmp(&values[usize::from(*b)]));
        let value = |code: &u8| values[usize::from(*code)];
        let border = |pair: &[u8]| (value(&pair[0]) + value(&pair[1])) * 0.5;
        let borders = ascending.windows(2).map(border).collect();
        CodeBook { values, ascending, borders }
    }

    pub(super) fn encode(&self, row: &[f32], codes: &mut [u8], scale_bytes: &mut [u8]) {
        let scale = row.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        let code = |x: &f32| self.nearest(if scale > 0.0 { x / scale } else { 0.0 });
        if self.values.len() == 16 {
            let (even, odd) = (row.iter().step_by(2), row.iter().skip(1).step_by(2));
            pack_nibbles(even.map(code), odd.map(code), codes);
        } else {
            codes.iter_mut().zip(row).for_each(|(out, x)| *out = code(x));
        }
        scale_bytes.copy_from_slice(&scale.to_le_bytes());
    }

    pub(super) fn decode(&self, codes: &[u8], scale: &[u8], row: &mut [f32]) {
        let scale = f32::from_le_bytes(scale.try_into().expect("four bytes of scale"));
        let number = |code: u8| self.values[usize::from(code)] * scale;
        if self.values.len() == 16 {
            for (pair, code) in row.chunks_exact_mut(2).zip(codes) {
                pair.copy_from_slice(&[number(code >> 4), number(code & 15)]);
            }
        } else {
            row.iter_mut().zip(codes).for_each(|(x, code)| *x = number(*code));
        }
    }

    pub(super) fn table(&self) -> CodeTable {
        let mut table = CodeTable::of_values(&self.values);
        table.borders[..self.borders.len()].copy_from_slice(&self.borders);
        for (code, ascending) in table.ascending.iter_mut().zip(&self.ascending) {
            *code = i32::from(*ascending);
        }
        table
    }

    pub(super) fn values(&self) -> &[f32] {
        &self.values
    }

    fn nearest(&self, x: f32) -> u8 {
        self.ascending[self.borders.partition_point(|border| *border < x)]
    }
}

/// Seven decades below one, each with twice the values of the one below it, both signs; zero and
/// one. A value lies in the middle of its share of a decade.
///
/// Edges are counted from the nearer end and rounded once, so that every bit is the original's.
fn dynamic_values() -> Vec<f32> {
    let mut values = vec![0.0, 1.0];
    for decade in 0..7 {
        let shares = 1 << decade;
        let width = ((1.0 - f64::from(0.1f32)) / f64::from(shares)) as f32;
        let edge = |i: i32| {
            if 2 * i < shares {
                width.mul_add(i as f32, 0.1)
            } else {
                (-width).mul_add((shares - i) as f32, 1.0)
            }
        };
        let size = 10f64.powi(decade - 6) as f32;
        for i in 0..shares {
            let value = size * ((edge(i) + edge(i + 1)) / 2.0);
            values.extend([value, -value]);
        }
    }
    values.sort_by(f32::total_cmp);
    values
}

/// Code 8 and above are the negatives of codes 0 to 7.
fn float4_values() -> Vec<f32> {
    let sizes = [0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0].map(|size: f32| size / 12.0);
    // Zero has two codes; equal values keep the order of their codes.
    let negatives = sizes.map(|size| if size == 0.0 { 0.0 } else { -size });
    sizes.into_iter().chain(negatives).collect()
}
