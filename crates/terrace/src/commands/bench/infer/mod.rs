//! `terrace bench infer`: how many inference requests a running server answers, and how soon.

mod infer_connection;
mod infer_load;
mod wire_form;
mod wire_request;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use self::infer_load::{InferLoad, InferLoadResult};
use self::wire_form::WireForm;
use self::wire_request::WireRequest;
use crate::commands::percentiles::Percentiles;
use crate::commands::print_report::print_report;

/// Measure how many inference requests (KServe, as Triton's clients send them) a server answers.
///
/// The same request is sent again and again to a server that runs already, as JSON, in the binary
/// form of Triton's HTTP clients, or over gRPC. Without --rate each of --connections asks again
/// when its answer has come: the most that the server can answer. With --rate requests come at
/// random times, whatever the server does, and the time until an answer counts from when its
/// request was due.
#[derive(Args, Debug)]
#[command(after_long_help = "Reading the table:
  requests/s   that were answered
  p50, p99     milliseconds from a request to its answer
  errors       requests without an answer, or with an error

Examples:
  terrace bench infer --model click_demo --request examples/click_request.json
  terrace bench infer --model click_demo --request examples/click_request.json --as grpc \\
    --rate 500 --seconds 600")]
pub struct InferArgs {
    /// The model that is asked.
    #[arg(long, value_name = "NAME")]
    model: String,

    /// A file with the request, as JSON that could be posted to /v2/models/NAME/infer.
    #[arg(long, value_name = "FILE")]
    request: PathBuf,

    /// Where the server answers.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8000")]
    server: SocketAddr,

    /// How requests are sent, one or more ways.
    #[arg(
        long = "as",
        value_name = "FORM",
        value_delimiter = ',',
        default_value = "json,binary,grpc"
    )]
    forms: Vec<WireForm>,

    /// Connections, each with one request at a time.
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    connections: usize,

    /// Requests a second that come whatever the server does. Left out: as many as it can answer.
    #[arg(long, value_name = "REQUESTS")]
    rate: Option<f64>,

    /// How long requests are sent.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    seconds: f64,

    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct InferReport {
    model: String,
    rows: Vec<InferRow>,
}

#[derive(Serialize)]
struct InferRow {
    form: WireForm,
    requests_per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    largest_ms: f64,
    answered: usize,
    errors: usize,
}

pub fn run(args: &InferArgs) -> Result<()> {
    let text = std::fs::read(&args.request)
        .with_context(|| format!("cannot read {}", args.request.display()))?;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut rows = Vec::new();
    for form in &args.forms {
        let request = WireRequest::new(*form, &args.model, &text)
            .with_context(|| format!("{} is no request", args.request.display()))?;
        let load = InferLoad {
            server: args.server,
            connections: args.connections.max(1),
            rate: args.rate,
            time: Duration::from_secs_f64(args.seconds),
        };
        let result = runtime.block_on(load.send(request))?;
        if let Some(error) = result.errors.first() {
            eprintln!("first of {} errors: {error}", result.errors.len());
        }
        rows.push(InferRow::new(*form, &result)?);
    }
    let report = InferReport { model: args.model.clone(), rows };
    print_report(&report, args.json)
}

impl InferRow {
    fn new(form: WireForm, result: &InferLoadResult) -> Result<Self> {
        let times = Percentiles::of(&result.times).context("no request was answered")?;
        Ok(InferRow {
            form,
            requests_per_second: result.times.len() as f64 / result.took.as_secs_f64(),
            p50_ms: times.p50,
            p99_ms: times.p99,
            largest_ms: times.largest,
            answered: result.times.len(),
            errors: result.errors.len(),
        })
    }
}

impl fmt::Display for InferReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}\n{:>8} {:>12} {:>9} {:>9} {:>9} {:>9} {:>7}",
            self.model, "as", "requests/s", "p50", "p99", "largest", "answered", "errors"
        )?;
        for row in &self.rows {
            let form = format!("{:?}", row.form).to_lowercase();
            writeln!(
                f,
                "{form:>8} {:>12.1} {:>9.3} {:>9.3} {:>9.3} {:>9} {:>7}",
                row.requests_per_second,
                row.p50_ms,
                row.p99_ms,
                row.largest_ms,
                row.answered,
                row.errors
            )?;
        }
        Ok(())
    }
}
