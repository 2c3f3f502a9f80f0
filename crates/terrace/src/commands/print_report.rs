//! A report on standard output: a table for people, or JSON for programs.

use std::fmt::Display;

use anyhow::Result;
use serde::Serialize;

pub fn print_report(report: &(impl Display + Serialize), as_json: bool) -> Result<()> {
    if as_json {
        println!("{}", serde_json::to_string_pretty(report)?);
    } else {
        println!("{report}");
    }
    Ok(())
}
