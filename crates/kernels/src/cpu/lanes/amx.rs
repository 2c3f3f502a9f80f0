//! Matrix units: products of tiles of up to 16 rows by 64 bytes.
//!
//! The operating system gives a process the tiles' registers when it asks, which it must do before
//! the first of them is used. A thread configures its tiles around a kernel and releases them
//! after, so that switching to another thread does not save 8 KiB of registers.

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::marker::PhantomData;

use super::panel_avx512::Vnni;

/// Exists only where [`Amx::detect`] found the instructions and got the permission.
#[derive(Clone, Copy)]
pub(crate) struct Amx {
    vnni: Vnni,
}

impl Amx {
    pub(crate) fn detect() -> Option<Self> {
        let vnni = Vnni::detect().filter(|_| has_tiles())?;
        may_use_tiles().then_some(Amx { vnni })
    }

    /// Whether the processor has tiles that the operating system will not let us use.
    pub(crate) fn is_refused() -> bool {
        Vnni::detect().is_some() && has_tiles() && !may_use_tiles()
    }

    pub(crate) fn vnni(self) -> Vnni {
        self.vnni
    }

    /// Calls `f` while this thread has tiles for products of rows of so many bytes.
    #[inline]
    pub(crate) fn with_tiles<R>(self, row: TileRow, f: impl FnOnce(Tiles<'_>) -> R) -> R {
        f(TileUnits::of(self).tiles(row))
    }
}

/// A thread's tiles, which are configured when they are needed and released when this is dropped,
/// also when a kernel panics.
pub(crate) struct TileUnits {
    _proof: Amx,
    row: Option<TileRow>,
}

impl TileUnits {
    pub(crate) fn of(amx: Amx) -> Self {
        TileUnits { _proof: amx, row: None }
    }

    /// Tiles for products of rows of so many bytes.
    #[inline]
    pub(crate) fn tiles(&mut self, row: TileRow) -> Tiles<'_> {
        static CONFIGS: [TileConfig; 3] =
            [TileConfig::new(64), TileConfig::new(32), TileConfig::new(16)];
        if self.row != Some(row) {
            let config = &raw const CONFIGS[row as usize];
            // SAFETY: the proof says that tiles may be used; the configuration is 64 valid bytes.
            unsafe { asm!("ldtilecfg [{}]", in(reg) config, options(nostack)) };
            self.row = Some(row);
        }
        Tiles { _configured: PhantomData }
    }
}

impl Drop for TileUnits {
    fn drop(&mut self) {
        if self.row.is_some() {
            // SAFETY: the tiles were configured.
            unsafe { asm!("tilerelease", options(nomem, nostack)) };
        }
    }
}

/// How much of a row of A one product takes. B has as many bytes in each of its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TileRow {
    Bytes64,
    Bytes32,
    Bytes16,
}

/// The proof that this thread's tiles are configured: 0 to 3 for sums, 4 and 5 for A, 6 and 7 for
/// B. Where rows have 64 bytes all are alike.
#[derive(Clone, Copy)]
pub(crate) struct Tiles<'u> {
    _configured: PhantomData<&'u TileUnits>,
}

macro_rules! load {
    ($instruction:literal, $tile:ident, $from:ident, $stride:ident) => {
        asm!(
            concat!($instruction, " tmm{tile}, [{from} + {stride}]"),
            tile = const $tile,
            from = in(reg) $from,
            stride = in(reg) $stride,
            options(nostack, readonly),
        )
    };
}

macro_rules! dot {
    ($instruction:literal, $sum:ident, $a:ident, $b:ident) => {
        asm!(
            concat!($instruction, " tmm{}, tmm{}, tmm{}"),
            const $sum,
            const $a,
            const $b,
            options(nomem, nostack),
        )
    };
}

/// Tiles by number, `0..8`.
impl Tiles<'_> {
    #[inline(always)]
    pub(crate) fn zero<const TILE: u8>(self) {
        // SAFETY: `self` proves that the tiles are configured.
        unsafe { asm!("tilezero tmm{}", const TILE, options(nomem, nostack)) };
    }

    /// The tile's rows, `stride` bytes apart.
    ///
    /// # Safety
    /// They can be read.
    #[inline(always)]
    pub(crate) unsafe fn load<const TILE: u8>(self, from: *const u8, stride: usize) {
        // SAFETY: `self` proves that the tiles are configured, and the caller's contract.
        unsafe { load!("tileloadd", TILE, from, stride) };
    }

    /// As [`load`](Self::load), of what is used once: it leaves the first-level cache to others.
    ///
    /// # Safety
    /// As [`load`](Self::load).
    #[inline(always)]
    pub(crate) unsafe fn load_once<const TILE: u8>(self, from: *const u8, stride: usize) {
        // SAFETY: `self` proves that the tiles are configured, and the caller's contract.
        unsafe { load!("tileloaddt1", TILE, from, stride) };
    }

    /// # Safety
    /// The tile's rows, `stride` bytes apart, can be written.
    #[inline(always)]
    pub(crate) unsafe fn store<const TILE: u8>(self, to: *mut u8, stride: usize) {
        // SAFETY: `self` proves that the tiles are configured, and the caller's contract.
        unsafe {
            asm!(
                "tilestored [{to} + {stride}], tmm{tile}",
                tile = const TILE,
                to = in(reg) to,
                stride = in(reg) stride,
                options(nostack),
            );
        }
    }

    /// `SUM += A * B`: A holds 32 bf16 in each row, B two in each of its 16 columns.
    #[inline(always)]
    pub(crate) fn dot_bf16<const SUM: u8, const A: u8, const B: u8>(self) {
        // SAFETY: `self` proves that the tiles are configured.
        unsafe { dot!("tdpbf16ps", SUM, A, B) };
    }

    /// `SUM += A * B`: A holds signed bytes, B four unsigned ones in each of its 16 columns.
    #[inline(always)]
    pub(crate) fn dot_int8<const SUM: u8, const A: u8, const B: u8>(self) {
        // SAFETY: `self` proves that the tiles are configured.
        unsafe { dot!("tdpbsud", SUM, A, B) };
    }
}

#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl TileConfig {
    const fn new(bytes: u16) -> Self {
        let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
        let mut tile = 0;
        while tile < 8 {
            row_bytes[tile] = if matches!(tile, 4 | 5) { bytes } else { 64 };
            rows[tile] = if matches!(tile, 6 | 7) { (bytes / 4) as u8 } else { 16 };
            tile += 1;
        }
        TileConfig { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows }
    }
}

fn has_tiles() -> bool {
    const BF16: u32 = 1 << 22;
    const TILE: u32 = 1 << 24;
    const INT8: u32 = 1 << 25;
    /// Bits 17 and 18 of the states that the operating system saves.
    const TILE_STATES: u64 = 0b11 << 17;
    #[target_feature(enable = "xsave")]
    fn saved_states() -> u64 {
        // SAFETY: the instruction was detected, and register 0 always exists.
        unsafe { _xgetbv(0) }
    }
    let features = __cpuid_count(7, 0).edx;
    let needed = BF16 | TILE | INT8;
    features & needed == needed
        && is_x86_feature_detected!("xsave")
        // SAFETY: detected in the line above.
        && unsafe { saved_states() } & TILE_STATES == TILE_STATES
}

/// Asks for the whole process; asking again does no harm.
#[cfg(target_os = "linux")]
fn may_use_tiles() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const REQUEST_STATE: i64 = 0x1023;
    const TILE_DATA: i64 = 18;
    let result: i64;
    // SAFETY: the call takes two numbers and touches no memory of ours.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") REQUEST_STATE,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn may_use_tiles() -> bool {
    false
}
