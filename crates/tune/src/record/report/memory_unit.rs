//! The unit in which an amount of memory reads well.

pub struct MemoryUnit {
    pub name: &'static str,
    pub bytes: f64,
}

impl MemoryUnit {
    pub fn of(bytes: u64) -> Self {
        match bytes {
            ..0x4000_0000 => MemoryUnit { name: "MiB", bytes: (1_u64 << 20) as f64 },
            _ => MemoryUnit { name: "GiB", bytes: (1_u64 << 30) as f64 },
        }
    }

    pub fn amount(&self, bytes: u64) -> f64 {
        bytes as f64 / self.bytes
    }
}
