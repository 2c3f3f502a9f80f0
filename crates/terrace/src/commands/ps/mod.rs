//! `terrace ps`: tables of a parameter server, from the command line.
//!
//! Nothing here starts a server: databases are opened to read, and Redis is asked beside those who
//! use it.

mod diff;
mod get;
mod get_report;
mod level_access;
mod migrate;
mod ps_file;
mod publish;
mod size;
mod size_report;
mod table_choice;
mod text_table;
mod verify;
mod verify_report;

use anyhow::Result;
use clap::{Args, Subcommand};

use self::diff::DiffArgs;
use self::get::GetArgs;
use self::migrate::MigrateArgs;
use self::publish::PublishArgs;
use self::size::SizeArgs;
use self::verify::VerifyArgs;

/// Size, look into, compare and update the tables of a parameter server.
#[derive(Args, Debug)]
pub struct PsArgs {
    #[command(subcommand)]
    what: Ps,
}

#[derive(Subcommand, Debug)]
enum Ps {
    Size(SizeArgs),
    Get(GetArgs),
    Diff(DiffArgs),
    Verify(VerifyArgs),
    Publish(PublishArgs),
    Migrate(MigrateArgs),
}

pub fn run(args: &PsArgs) -> Result<()> {
    match &args.what {
        Ps::Size(args) => size::run(args),
        Ps::Get(args) => get::run(args),
        Ps::Diff(args) => diff::run(args),
        Ps::Verify(args) => verify::run(args),
        Ps::Publish(args) => publish::run(args),
        Ps::Migrate(args) => migrate::run(args),
    }
}
