//! `terrace serve`: the HTTP service.

use std::io;
use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use terrace_embedding::ParameterServer;
use terrace_engine::Shutdown;
use terrace_engine::predict::RequestShape;
use terrace_engine::rank::Truncate;
use terrace_engine::text::LanguageModel;
use terrace_server::{RankedModel, Server, TableService};
use tokio::net::{TcpListener, TcpSocket};

use crate::commands::welcome::{Trial, Welcome};
use crate::memory_lines::{memory_lines, pool_note, tier_lines};
use crate::open_files;
use crate::open_model;
use crate::open_ranking::{self, RecommenderOptions};
use crate::open_repository::OpenedRepository;
use crate::open_tables;
use crate::options::{
    EngineOptions, LogOptions, ModelChoice, PeerFlag, PsOptions, SamplingOptions, ServiceOptions,
};
use crate::stop_signals;

/// Serve a model over HTTP, with OpenAI's routes.
///
/// Starts with no options at all: the default model is pulled if it is not there, and serves on
/// http://127.0.0.1:8000. Ctrl-C or SIGTERM stops it after the running requests, a second one at
/// once.
///
/// Every option can stand in a TOML file under the same name (--config). What is typed wins over
/// the file, the file over the defaults. Sampling options given here fill what a request leaves
/// out; what they leave out is filled by the model's own generation_config.json.
#[derive(Args, Debug)]
#[command(after_long_help = format!("{EXAMPLES}\n\n{}", PeerFlag::help()))]
pub struct ServeArgs {
    /// The model, as --model would name it.
    #[arg(value_name = "MODEL", value_parser = ModelChoice::parse, conflicts_with = "model")]
    bare_model: Option<ModelChoice>,

    /// A TOML file with options, one `name = value` a line; lists for options given several times.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    pub service: ServiceOptions,
    #[command(flatten)]
    pub engine: EngineOptions,
    #[command(flatten)]
    pub sampling: SamplingOptions,
    #[command(flatten)]
    pub tables: PsOptions,
    #[command(flatten)]
    log: LogOptions,

    /// Serve the click-through models of a repository in Triton's layout, a folder or an s3:// URL:
    /// each model is a folder with config.pbtxt and a folder for each version. Models can be
    /// loaded, replaced and unloaded while it runs (POST /v2/repository/models/NAME/load). With
    /// --ps FILE their tables are kept as it says.
    #[arg(long, value_name = "FOLDER")]
    model_repository: Option<String>,

    /// What a recommender keeps of a history that is longer than it takes: oldest_kept (its first
    /// items, so that what is cached stays of use) or recent (its last, in hops of a quarter of
    /// what fits: at each hop all is computed again).
    #[arg(long, value_name = "WHICH", default_value_t, hide_short_help = true)]
    truncate: Truncate,

    /// Seconds that a recommender's cached histories stay usable after its embedding tables were
    /// replaced (POST /v1/rank/reload). Left out: without limit.
    #[arg(long, value_name = "SECONDS", hide_short_help = true)]
    max_staleness: Option<u64>,

    /// Keep a recommender's embedding tables in pinned host memory, which a GPU reads over the bus:
    /// for tables that are larger than its memory.
    #[arg(long, hide_short_help = true)]
    tables_on_host: bool,

    /// The settings file's `[[models]]`, each with the options that are its own.
    #[arg(skip)]
    pub models: Vec<EngineOptions>,

    /// Whether a model is named at all; tables are served without one.
    #[arg(skip)]
    pub names_models: bool,
}

const EXAMPLES: &str = "Examples:
  terrace serve
  terrace serve ./Llama-3.2-1B-Instruct --port 9000 --max-batch-size 16
  terrace serve --host 0.0.0.0 --api-key \"$KEY\" --kv-memory 4GiB --log-format json
  terrace serve --model small=smollm2 --model large=./Llama-3.2-1B-Instruct
  terrace serve ./Llama-3.2-1B-Instruct --adapter ./my-lora
  terrace serve --model ./kuairand --kv-tier disk=./users,100GiB
  terrace serve --ps ps.json
  terrace serve --model-repository ./models --ps ps.json
  terrace serve --config terrace.toml

Then:
  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Why is the sky blue?\"}]}'";
/// After the time to drain, for clients to hear that their requests end, and for engines to finish
/// their step. The server takes 2 s of it at most.
const FAREWELL: Duration = Duration::from_secs(5);

/// Consumers of updates end within a second or two, and fills of hot caches within five.
const TABLES_END: Duration = Duration::from_secs(8);

/// For tasks that only need to be dropped.
const LET_GO: Duration = Duration::from_millis(500);

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;

pub fn run(args: &ServeArgs) -> Result<()> {
    args.log.start();
    // Taken before the model is opened, which may take a while: a port in use is reported at once.
    let sockets = reserve_all(&args.service)?;
    let tls = args.service.tls()?;
    open_files::allow_many();
    let mut opened = Opened::open(args)?;
    let config = args.service.server_config(args.sampling.generation());
    let deadline = Duration::from_secs(config.drain_seconds).saturating_add(opened.farewell());
    let runtime = tokio::runtime::Runtime::new().context("cannot start the server's threads")?;
    let service = TableService::new(opened.tables.clone());
    let repository = opened.repository.take().map(|it| it.start(&service)).transpose()?;
    let registry = repository.as_ref().map(|it| Arc::clone(&it.registry)).unwrap_or_default();
    let (has_chat_template, needs_key) =
        (config.chat_template.is_some(), !config.api_keys.is_empty());
    let (models, ranking) = (opened.language.clone(), opened.ranking.clone());
    let server = Server::new(config, models.clone(), ranking.clone(), service, registry)?;
    let first = match &repository {
        Some(repository) => runtime.block_on(repository.load_all())?,
        None => None,
    };
    let welcome = Welcome {
        trial: opened.trial(has_chat_template, first)?,
        needs_key,
        is_encrypted: tls.is_some(),
    };
    let tables = opened.tables.take();
    drop((opened, repository));
    let server = match tls {
        Some(tls) => server.with_tls(tls),
        None => server,
    };
    runtime.block_on(serve(server, sockets, &welcome, deadline))?;
    for model in &ranking {
        // One that has stopped has nothing to keep.
        let _ = runtime.block_on(model.engine.flush());
    }
    // In order, within the deadline: each engine's thread gives its device back.
    for model in &models {
        model.shutdown(Shutdown::Flush);
    }
    // Work on requests that nobody waits for any more may go on until the process has ended. It
    // holds the models, and must not be the last to: a device that is given back while the process
    // ends crashes in its driver.
    std::mem::forget((models, ranking));
    runtime.shutdown_timeout(LET_GO);
    tables.into_iter().for_each(end_tables);
    Ok(())
}

/// Commits what updates have brought, and closes databases, unless a look-up is still under way.
fn end_tables(tables: Arc<ParameterServer>) {
    if Arc::strong_count(&tables) > 1 {
        eprintln!("warning: a look-up has not ended; the tables are left as they are");
        // As the models: whoever looks something up must not be the last to hold them.
        std::mem::forget(tables);
    }
}

/// What is served.
struct Opened {
    language: Vec<Arc<LanguageModel>>,
    ranking: Vec<RankedModel>,
    tables: Option<Arc<ParameterServer>>,
    repository: Option<OpenedRepository>,
}

impl Opened {
    fn open(args: &ServeArgs) -> Result<Self> {
        let open_tables = || -> Result<_> {
            match &args.model_repository {
                None => Ok((open_tables::open(&args.tables, args.engine.device())?, None)),
                Some(place) => {
                    let (set, repository) =
                        OpenedRepository::open(place, &args.tables, &args.engine)?;
                    Ok((set, Some(repository)))
                }
            }
        };
        let wanted = args.wanted_models()?;
        let has_recommender = wanted.iter().try_fold(false, |has, options| {
            Ok::<_, anyhow::Error>(has || open_ranking::is_recommender(options.only_model()?))
        })?;
        // Before recommenders, whose rows they may have. Else behind the models, which take their
        // share of a GPU's memory whole.
        let first = if has_recommender { Some(open_tables()?) } else { None };
        let rows = first.as_ref().and_then(|(tables, _)| tables.as_ref());
        let (language, ranking) = open_models(args, &wanted, rows)?;
        let (tables, repository) = first.map_or_else(open_tables, Ok)?;
        Ok(Opened { language, ranking, tables, repository })
    }

    /// A request to the first of all.
    fn trial(
        &self,
        has_chat_template: bool,
        of_repository: Option<(String, RequestShape)>,
    ) -> Result<Trial> {
        let table = self.tables.as_ref().and_then(|tables| tables.names().next());
        match (self.language.first(), self.ranking.first(), table) {
            (Some(model), ..) => {
                let chats = has_chat_template || model.chat_template().is_some();
                Ok(Trial::of_language_model(model.name(), chats))
            }
            (None, Some(model), _) => {
                Ok(Trial::of_recommender(&model.name, model.engine.front().retrieves))
            }
            (None, None, Some((name, _))) => Ok(Trial::of_table(&name.model, &name.table)),
            (None, None, None) => match of_repository {
                Some((name, shape)) => Ok(Trial::of_click_model(&name, &shape)),
                None => bail!("no model and no table is to be served"),
            },
        }
    }

    /// How long the end may take after the time to drain.
    fn farewell(&self) -> Duration {
        match self.tables.is_some() || self.repository.is_some() {
            true => FAREWELL.saturating_add(TABLES_END),
            false => FAREWELL,
        }
    }
}

fn open_models(
    args: &ServeArgs,
    wanted: &[EngineOptions],
    tables: Option<&Arc<ParameterServer>>,
) -> Result<(Vec<Arc<LanguageModel>>, Vec<RankedModel>)> {
    let mut models = Vec::new();
    let mut ranking = Vec::new();
    for options in wanted {
        if open_ranking::is_recommender(options.only_model()?) {
            let own = RecommenderOptions {
                truncate: args.truncate,
                max_staleness: args.max_staleness.map(Duration::from_secs),
                tables_on_host: args.tables_on_host,
            };
            let model = open_ranking::open(options, wanted.len(), own, tables)?;
            let is_served = model.engine.front().has_served_tables();
            let rows = if is_served { ", with rows of the tables" } else { "" };
            println!("recommender {}{rows}", model.name);
            ranking.push(model);
            continue;
        }
        let model = open_model::open_beside(options, wanted.len())?;
        if wanted.len() > 1 {
            println!("model    {}", model.name());
        }
        if let Some(adapter) = model.adapter() {
            println!("adapter  {adapter}");
        }
        println!("{}", memory_lines(model.memory()));
        tier_lines(&model.tier_readings()).iter().for_each(|line| println!("{line}"));
        if let Some(note) = pool_note(model.memory()) {
            println!("{note}");
        }
        models.push(Arc::new(model));
    }
    Ok((models, ranking))
}

impl ServeArgs {
    /// The options of each model, each with its one model.
    pub fn wanted_models(&self) -> Result<Vec<EngineOptions>> {
        let has_others = self.tables.source()?.is_some() || self.model_repository.is_some();
        let is_tables_alone = has_others && !self.names_models;
        let mut wanted = match (&self.bare_model, self.models.is_empty()) {
            (Some(model), _) => vec![self.engine.of_model(model)],
            (None, true) if is_tables_alone => Vec::new(),
            (None, true) => self.engine.of_each_model(),
            (None, false) => self.models.clone(),
        };
        if self.engine.adapter.is_some() && self.models.is_empty() && wanted.len() != 1 {
            bail!(
                "--adapter is of one model, {} are served: give each its own, as 'adapter' in \
                 [[models]] of a settings file",
                wanted.len()
            );
        }
        if let Some(name) = &self.service.model_name {
            let [only] = wanted.as_mut_slice() else {
                bail!("--model-name names one model; of several, name each: --model NAME=PATH");
            };
            only.model[0].name = Some(name.clone());
        }
        let mut names: Vec<_> =
            wanted.iter().filter_map(|options| options.model[0].name.as_ref()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!("two models are named {:?}", twice[0]);
        }
        Ok(wanted)
    }
}

/// Takes the ports without opening them: nobody can connect before the model is ready.
fn reserve_all(service: &ServiceOptions) -> Result<Vec<TcpSocket>> {
    let ports = std::iter::once(service.port).chain(service.grpc_port);
    ports.map(|port| reserve(&service.host, port)).collect()
}

fn reserve(host: &str, port: u16) -> Result<TcpSocket> {
    let reserve = || {
        let mut refused = None;
        for address in (host, port).to_socket_addrs()? {
            let is_v4 = address.is_ipv4();
            let socket = if is_v4 { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            socket.set_reuseaddr(true)?;
            match socket.bind(address) {
                Ok(()) => return Ok(socket),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| io::Error::other("the host has no address")))
    };
    reserve().with_context(|| format!("cannot listen on {host}:{port}"))
}

async fn serve(
    server: Server,
    sockets: Vec<TcpSocket>,
    welcome: &Welcome,
    deadline: Duration,
) -> Result<()> {
    let listeners = sockets.into_iter().map(|socket| socket.listen(BACKLOG));
    let listeners = listeners.collect::<io::Result<Vec<_>>>().context("cannot open the port")?;
    let addresses = listeners.iter().map(TcpListener::local_addr);
    let addresses = addresses.collect::<io::Result<Vec<_>>>()?;
    let stop = stop_signals::watch(deadline).context("cannot wait for signals")?;
    // In one write: who starts the server from a script may stop reading after the address.
    print!("{}", welcome.lines(&addresses));
    let stop = async move {
        // The sender is dropped after the first signal alone.
        let _ = stop.await;
    };
    server.serve(listeners, stop).await;
    Ok(())
}
