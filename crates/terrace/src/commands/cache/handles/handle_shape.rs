//! A handle as a server describes it, for people and for programs.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::byte_size::ByteSize;
use crate::time_span::TimeSpan;

#[derive(Debug, Deserialize, Serialize)]
pub struct HandleShape {
    pub id: String,
    pub object: String,
    pub name: String,
    pub model: String,
    pub tokens: u64,
    pub bytes: u64,
    pub created: u64,
    pub expires_at: Option<u64>,
    pub pinned: bool,
    pub durable: bool,
    pub imported: bool,
    pub resident: bool,
    pub crosses_arithmetic: bool,
    pub cache_salt: String,
    pub kv_cache: Option<Value>,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct HandleList {
    pub object: String,
    pub data: Vec<HandleShape>,
}

impl HandleShape {
    /// What to write in a request or on a command line: the name where it needs no quotes.
    pub fn reference(&self) -> &str {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.name.chars().all(is_plain) { &self.name } else { &self.id }
    }

    pub fn size(&self) -> ByteSize {
        ByteSize(usize::try_from(self.bytes).unwrap_or(usize::MAX))
    }

    pub fn age(&self) -> TimeSpan {
        TimeSpan(unix_seconds().saturating_sub(self.created)).rounded()
    }

    /// `in 2h`, or `never`.
    pub fn expires(&self) -> String {
        match self.expires_at {
            _ if self.pinned => "never".to_owned(),
            Some(at) => {
                format!("in {}", TimeSpan(at.saturating_sub(unix_seconds())).rounded())
            }
            None => "never".to_owned(),
        }
    }
}

/// A line each.
impl fmt::Display for HandleShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let yes_or_no = |flag: bool| if flag { "yes" } else { "no" };
        writeln!(f, "name       {}", self.name)?;
        writeln!(f, "id         {}", self.id)?;
        writeln!(f, "model      {}", self.model)?;
        writeln!(f, "tokens     {}", self.tokens)?;
        writeln!(f, "size       {}", self.size())?;
        writeln!(f, "age        {}", self.age())?;
        writeln!(f, "expires    {}", self.expires())?;
        writeln!(f, "pinned     {}", yes_or_no(self.pinned))?;
        let lost = if self.durable { "yes" } else { "no: it is lost when the server stops" };
        writeln!(f, "durable    {lost}")?;
        writeln!(f, "in memory  {}", yes_or_no(self.resident))?;
        writeln!(f, "imported   {}", yes_or_no(self.imported))?;
        if self.crosses_arithmetic {
            writeln!(f, "computed   on another kind of device; outputs may differ in last bits")?;
        }
        if !self.cache_salt.is_empty() {
            writeln!(f, "salt       {}", self.cache_salt)?;
        }
        match &self.kv_cache {
            Some(options) => write!(f, "kv_cache   {options}"),
            None => write!(f, "kv_cache   the server's"),
        }
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
