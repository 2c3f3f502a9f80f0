//! Memory that a run will take, by what it is for.

use std::fmt;

use crate::byte_size::ByteSize;

/// What something takes, where the run computes and on the host. On a CPU both are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedMemory {
    pub what: &'static str,
    pub device: usize,
    pub host: usize,
}

impl PlannedMemory {
    pub fn on_device(what: &'static str, device: usize) -> Self {
        PlannedMemory { what, device, host: 0 }
    }

    pub fn on_host(what: &'static str, host: usize) -> Self {
        PlannedMemory { what, device: 0, host }
    }
}

/// A table, with a column for each kind of memory.
pub struct PlannedTable<'a> {
    pub rows: &'a [PlannedMemory],
    /// Whether the device has memory of its own.
    pub is_apart: bool,
}

impl fmt::Display for PlannedTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |bytes: fn(&PlannedMemory) -> usize| self.rows.iter().map(bytes).sum();
        let (device, host) = (sum(|row| row.device), sum(|row| row.host));
        let all = PlannedMemory { what: "together", device, host };
        if self.is_apart {
            writeln!(f, "  {:28} {:>12} {:>12}", "", "GPU", "host")?;
        }
        for (at, row) in self.rows.iter().chain([&all]).enumerate() {
            if 0 < at {
                writeln!(f)?;
            }
            let PlannedMemory { what, device, host } = *row;
            match self.is_apart {
                true => write!(f, "  {what:28} {:>12} {:>12}", size(device), size(host))?,
                false => write!(f, "  {what:28} {}", ByteSize(device + host))?,
            }
        }
        Ok(())
    }
}

fn size(bytes: usize) -> String {
    if bytes == 0 { "-".to_owned() } else { ByteSize(bytes).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_has_a_column_of_its_own() {
        let rows =
            [PlannedMemory::on_device("slots", 3 << 20), PlannedMemory::on_host("inputs", 1 << 20)];
        let table = |is_apart| PlannedTable { rows: &rows, is_apart }.to_string();
        let words = |text: String| -> Vec<String> {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        assert_eq!(words(table(false)), ["slots 3.0 MiB", "inputs 1.0 MiB", "together 4.0 MiB"]);
        assert_eq!(
            words(table(true)),
            ["GPU host", "slots 3.0 MiB -", "inputs - 1.0 MiB", "together 3.0 MiB 1.0 MiB"]
        );
    }
}
