//! Holds the ops of a table to their references.
//!
//! Every op runs over odd sizes, every dtype and format, strided rows and poisoned outputs, with
//! fresh numbers from a seed. The tests of this crate run it for each level of the processor;
//! `terrace selftest` runs it where the program is going to serve.

mod attention;
mod copies;
mod kv_case;
mod products;
mod random;
mod report;
mod rows;

pub use kv_case::{KvCase, KvSpec};
pub use random::Random;
pub use report::{Case, Report};

use crate::cpu_ops::CpuOps;

/// Sizes around the widths of vectors and tiles.
const SIZES: [usize; 12] = [1, 2, 3, 7, 15, 16, 17, 31, 33, 64, 100, 127];

pub fn run(ops: &CpuOps, seed: u64) -> Report {
    let mut random = Random::new(seed);
    let mut report = Report::default();
    products::check(ops, &mut random, &mut report);
    rows::check(ops, &mut random, &mut report);
    copies::check(ops, &mut random, &mut report);
    attention::check(ops, &mut random, &mut report);
    report
}
