//! The real server, in this process, on a free port that only this machine can reach.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use terrace_engine::Shutdown;
use terrace_engine::text::LanguageModel;
use terrace_server::{Limits, Server, ServerConfig, TableService};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::service::Service;

pub struct LoopbackServer {
    pub address: SocketAddr,
    pub model: Arc<LanguageModel>,
    /// The server's own threads; clients have others.
    runtime: Runtime,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl LoopbackServer {
    pub fn start(model: LanguageModel) -> Result<Self> {
        let model = Arc::new(model);
        let limits = Limits { request_seconds: 0, body_bytes: 64 << 20, ..Limits::default() };
        let config = ServerConfig { limits, drain_seconds: 5, ..ServerConfig::default() };
        let models = vec![Arc::clone(&model)];
        let server =
            Server::new(config, models, Vec::new(), TableService::default(), Arc::default())?;
        let runtime = Runtime::new().context("cannot start the server's threads")?;
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let stopped = async move {
            // Also when the sender is gone.
            let _ = stopped.await;
        };
        let serving = runtime.spawn(server.serve(vec![listener], stopped));
        Ok(LoopbackServer { address, model, runtime, stop, serving })
    }

    /// How clients find it.
    pub fn service(&self) -> Service {
        Service { address: self.address, base: "/v1".into(), model: self.model.name().to_owned() }
    }

    pub fn stop(self) -> Result<()> {
        // The receiver is gone only if serving has failed, which is reported next.
        let _ = self.stop.send(());
        self.runtime.block_on(self.serving).context("the server panicked")?;
        self.model.shutdown(Shutdown::Now);
        Ok(())
    }
}
