//! How fast the ops that matter run here: products, and attention over pages and over slots.
//!
//! `cargo run --release -p terrace-kernels --example kernel_speed -- [what] [threads] [level]
//! [name] [tokens]`, where `what` is `products`, `attention` or `all`. Of products those of the
//! format `name` are measured, of attention those with `name` in their name.

mod attention;
mod pages;
mod products;
mod slots;

use terrace_kernels::{Compute, CpuLevel, CpuOps, CpuOptions, Ops, WeightFormat};

fn main() {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_else(|| "all".into());
    let threads = args.next().map_or(2, |arg| arg.parse().expect("threads"));
    let wanted_level = args.next();
    let wanted = args.next();
    let wanted_tokens = args.next().map(|arg| arg.parse::<usize>().expect("tokens"));
    for level in CpuLevel::available().into_iter().filter(|&level| level != CpuLevel::Reference) {
        if wanted_level.as_ref().is_some_and(|wanted| wanted != level.name()) {
            continue;
        }
        for compute in [Compute::Fast, Compute::F32] {
            let options = CpuOptions { threads, level: Some(level), compute };
            let ops = Ops::cpu(options).expect("level is available");
            println!("{} with {threads} threads, {compute:?}", level.name());
            if what != "products" {
                let cpu = CpuOps::new(options).expect("level is available");
                attention::measure(&ops, &cpu, wanted.as_deref().unwrap_or(""));
            }
            for format in [WeightFormat::Q4_1, WeightFormat::Q8_0, WeightFormat::Bf16] {
                let is_wanted = wanted.as_ref().is_none_or(|name| name == format.name());
                if what != "attention" && is_wanted {
                    products::measure(&ops, format, wanted_tokens);
                }
            }
        }
    }
}
