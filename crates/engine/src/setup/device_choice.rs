//! Which device an engine computes on: as asked for, and as found on this machine.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use terrace_device::cuda::{self, CudaInfo};

use crate::error::Error;

/// What `--device` may say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceChoice {
    /// The first GPU if there is one, else the CPU.
    #[default]
    Auto,
    Cpu,
    /// The GPU with this number.
    Cuda(usize),
}

impl DeviceChoice {
    /// The GPU to compute on, or `None` for the CPU.
    pub fn find(self) -> Result<Option<CudaInfo>, Error> {
        match self {
            DeviceChoice::Cpu => Ok(None),
            DeviceChoice::Auto => Ok(cuda::probe().ok().and_then(|found| found.into_iter().next())),
            DeviceChoice::Cuda(ordinal) => {
                let refuse = |why: String| Error::NoSuchDevice { device: self.to_string(), why };
                let found = cuda::probe().map_err(|missing| refuse(missing.to_string()))?;
                let names: Vec<_> = found.iter().map(describe).collect();
                let named = found.into_iter().find(|gpu| gpu.ordinal == ordinal);
                named.map(Some).ok_or_else(|| refuse(format!("there are: {}", names.join(", "))))
            }
        }
    }
}

/// Why `Auto` takes the CPU, when it does.
pub(crate) fn why_no_gpu() -> Option<String> {
    cuda::probe().err().map(|missing| missing.to_string())
}

fn describe(gpu: &CudaInfo) -> String {
    format!("cuda:{} ({})", gpu.ordinal, gpu.name)
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceChoice::Auto => f.write_str("auto"),
            DeviceChoice::Cpu => f.write_str("cpu"),
            DeviceChoice::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
        }
    }
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(DeviceChoice::Auto),
            "cpu" => Ok(DeviceChoice::Cpu),
            "cuda" => Ok(DeviceChoice::Cuda(0)),
            _ => {
                let ordinal = text.strip_prefix("cuda:").and_then(|number| number.parse().ok());
                ordinal.map(DeviceChoice::Cuda).ok_or_else(|| {
                    format!("no device is called {text:?}; say auto, cpu, or cuda:0")
                })
            }
        }
    }
}

impl TryFrom<String> for DeviceChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DeviceChoice> for String {
    fn from(choice: DeviceChoice) -> String {
        choice.to_string()
    }
}
