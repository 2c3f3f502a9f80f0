//! The databases that tables are kept in.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use terrace_device::Device;
use terrace_embedding::{DatabaseOptions, KeyKind, PsConfig, SharedDatabases};

/// Those of a configuration are for all tables. Without one, tables are in memory, and those with
/// keys of 32 and of 64 bits apart.
pub struct TableDatabases {
    devices: Vec<Device>,
    kind: Kind,
}

enum Kind {
    Configured(Arc<SharedDatabases>),
    InMemory { options: DatabaseOptions, opened: Mutex<Vec<(KeyKind, Arc<SharedDatabases>)>> },
}

impl TableDatabases {
    /// Calls `say` with what the user should know.
    pub fn open(
        config: &PsConfig,
        options: DatabaseOptions,
        say: &mut dyn FnMut(String),
    ) -> Result<Self> {
        let devices = options.devices.clone();
        let databases = SharedDatabases::open(config, options, say)?;
        Ok(TableDatabases { devices, kind: Kind::Configured(databases) })
    }

    pub fn in_memory(options: DatabaseOptions) -> Self {
        let devices = options.devices.clone();
        TableDatabases { devices, kind: Kind::InMemory { options, opened: Mutex::default() } }
    }

    /// By the numbers that configurations give them; one CPU stands for all.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// For the tables of a configuration.
    pub fn of(&self, config: &PsConfig) -> Result<Arc<SharedDatabases>> {
        let (options, opened) = match &self.kind {
            Kind::Configured(databases) => return Ok(Arc::clone(databases)),
            Kind::InMemory { options, opened } => (options, opened),
        };
        let mut opened = opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, databases)) = opened.iter().find(|(kind, _)| *kind == config.key_kind) {
            return Ok(Arc::clone(databases));
        }
        // Memory has nothing to say.
        let databases = SharedDatabases::open(config, options.clone(), &mut |_| ())?;
        opened.push((config.key_kind, Arc::clone(&databases)));
        Ok(databases)
    }
}
