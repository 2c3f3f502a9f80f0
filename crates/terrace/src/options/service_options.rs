//! How the HTTP service listens, and what it lets in.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, value_parser};
use terrace_engine::text::GenerationConfig;
use terrace_server::{AllowedOrigin, Limits, ServerConfig, Tls};

use crate::byte_size::ByteSize;
use crate::options::{refused, whole_number};
use crate::time_span::TimeSpan;

#[derive(Args, Debug)]
#[command(next_help_heading = "Service")]
pub struct ServiceOptions {
    /// Address to listen on; 0.0.0.0 lets other machines in (then set --api-key).
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub host: String,

    /// Port to listen on; 0 takes any free one and prints it.
    #[arg(long, default_value_t = 8000)]
    pub port: u16,

    /// A second port, which speaks the same: for clients that look for gRPC on one of its own, as
    /// Triton has it on 8001. Left out: gRPC is spoken on --port alone.
    #[arg(long, value_name = "PORT")]
    pub grpc_port: Option<u16>,

    /// The name under which clients ask for the model. Left out: the model's own.
    #[arg(long, value_name = "NAME")]
    pub model_name: Option<String>,

    /// Clients must send this as `Authorization: Bearer KEY`; may be given several times, and each
    /// key is good. Without it no key is needed.
    #[arg(long, value_name = "KEY")]
    pub api_key: Vec<String>,

    /// Web pages of this origin may use the service from a browser: https://chat.example.com, or
    /// `*` for all; may be given several times. Without it browsers keep other sites' pages out.
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<AllowedOrigin>,

    /// Replaces the model's chat template: the path of a Jinja file, or the template itself, in
    /// which \n, \t and \" stand for a line end, a tab and a quote. Left out: the model's.
    #[arg(long, value_name = "FILE_OR_TEXT")]
    pub chat_template: Option<String>,

    /// The role in which the model answers.
    #[arg(long, value_name = "ROLE", default_value_t = ServerConfig::default().response_role)]
    pub response_role: String,

    /// Longest body of a request, decompressed; a longer one is refused with status 413.
    #[arg(long, value_name = "SIZE", default_value_t = ByteSize(Limits::default().body_bytes))]
    pub max_body: ByteSize,

    /// Most outputs of one request: its prompts times n.
    #[arg(long, value_name = "OUTPUTS", default_value_t = Limits::default().choices,
          value_parser = whole_number::<usize>)]
    pub max_choices: usize,

    /// Ignore fields of a request that nobody knows, instead of refusing them; the response names
    /// them in the header x-terrace-ignored-fields.
    #[arg(long)]
    pub ignore_unknown_fields: bool,

    /// Longest time from a request to its last token, in seconds; 0 sets no limit.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().request_seconds,
          value_parser = whole_number::<u64>)]
    pub request_seconds: u64,

    /// How long running requests may go on after Ctrl-C or SIGTERM, in seconds; the process ends 5
    /// seconds later at most, and at once at a second signal.
    #[arg(long, value_name = "SECONDS", default_value_t = ServerConfig::default().drain_seconds,
          value_parser = whole_number::<u64>)]
    pub drain_seconds: u64,

    /// How long a session (session_id, prompt_cache_key) lives that no request uses: 90s, 10m, 2h,
    /// 1d.
    #[arg(long, value_name = "TIME",
          default_value_t = TimeSpan(ServerConfig::default().session_idle_seconds))]
    pub session_idle_timeout: TimeSpan,

    /// How long a connection may stay open without a whole request, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().idle_time.as_secs(),
          value_parser = value_parser!(u64).range(1..))]
    pub idle_seconds: u64,

    /// How long a client may take nothing of its response before it is cut off, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().stall_time.as_secs(),
          value_parser = value_parser!(u64).range(1..))]
    pub stall_seconds: u64,

    /// Speak HTTPS, with this certificate: a PEM file, followed by the certificates that vouch for
    /// it. Needs --ssl-keyfile.
    #[arg(long, value_name = "FILE")]
    ssl_certfile: Option<PathBuf>,

    /// The certificate's private key, a PEM file.
    #[arg(long, value_name = "FILE")]
    ssl_keyfile: Option<PathBuf>,

    /// Refused: Terrace serves at the root; let the proxy in front of it strip the path.
    #[arg(long, value_name = "PATH", value_parser = refused::root_path)]
    root_path: Option<Infallible>,
}

impl ServiceOptions {
    /// The server's configuration; `presets` fill what requests leave out.
    pub fn server_config(&self, presets: GenerationConfig) -> ServerConfig {
        ServerConfig {
            api_keys: self.api_key.clone(),
            allowed_origins: self.allow_origin.clone(),
            response_role: self.response_role.clone(),
            chat_template: self.chat_template.clone(),
            presets,
            limits: Limits {
                body_bytes: self.max_body.0,
                choices: self.max_choices,
                request_seconds: self.request_seconds,
                idle_time: Duration::from_secs(self.idle_seconds),
                stall_time: Duration::from_secs(self.stall_seconds),
            },
            ignore_unknown_fields: self.ignore_unknown_fields,
            drain_seconds: self.drain_seconds,
            session_idle_seconds: self.session_idle_timeout.0,
        }
    }

    /// The certificate and key for HTTPS; `None` for plain HTTP.
    pub fn tls(&self) -> Result<Option<Tls>> {
        match (&self.ssl_certfile, &self.ssl_keyfile) {
            (Some(certificate), Some(key)) => Ok(Some(Tls::load(certificate, key)?)),
            (None, None) => Ok(None),
            (Some(_), None) => bail!("--ssl-certfile needs its key: add --ssl-keyfile"),
            (None, Some(_)) => bail!("--ssl-keyfile needs its certificate: add --ssl-certfile"),
        }
    }
}
