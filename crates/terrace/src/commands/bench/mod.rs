//! `terrace bench`: how fast this machine is.

mod attention;
mod batch_fits;
mod bench_options;
mod completion_event;
mod ctr;
mod decode_window;
mod duration_bars;
mod engine_run;
mod event_stream;
mod hstu;
mod http_connection;
mod infer;
mod llm;
mod llm_report;
mod load;
mod loopback_server;
mod measured_model;
mod mixed_run;
mod ps;
mod random_prompts;
mod serve;
mod serve_report;
mod serve_times;
mod service;
mod soak;
mod soak_traffic;
mod spread;
mod step_roofline;
mod streamed_output;
mod tiers;
mod transfer;
mod tune;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::attention::AttentionArgs;
use self::ctr::CtrArgs;
use self::hstu::HstuArgs;
use self::infer::InferArgs;
use self::llm::LlmArgs;
use self::ps::PsArgs;
use self::serve::ServeBenchArgs;
use self::tiers::TiersArgs;
use self::transfer::TransferArgs;
use self::tune::TuneArgs;

/// Measure speed on this machine.
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Bench,
}

#[derive(Subcommand, Debug)]
enum Bench {
    Llm(Box<LlmArgs>),
    Attention(Box<AttentionArgs>),
    Serve(Box<ServeBenchArgs>),
    Transfer(Box<TransferArgs>),
    Tiers(Box<TiersArgs>),
    Hstu(Box<HstuArgs>),
    Ctr(Box<CtrArgs>),
    Infer(Box<InferArgs>),
    Ps(Box<PsArgs>),
    Tune(Box<TuneArgs>),
}

pub fn run(args: &BenchArgs) -> Result<()> {
    match &args.what {
        Bench::Llm(args) => llm::run(args),
        Bench::Attention(args) => attention::run(args),
        Bench::Serve(args) => serve::run(args),
        Bench::Transfer(args) => transfer::run(args),
        Bench::Tiers(args) => tiers::run(args),
        Bench::Hstu(args) => hstu::run(args),
        Bench::Ctr(args) => ctr::run(args),
        Bench::Infer(args) => infer::run(args),
        Bench::Ps(args) => ps::run(args),
        Bench::Tune(args) => tune::run(args),
    }
}
