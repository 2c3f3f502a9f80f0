//! Quantised weights in panels: what a block of 16 rows by 32 columns looks like in memory.
//!
//! A block is its scales, then what it adds, then the high bits of its weights and then their low
//! bits. Each of these is a row of vectors whose lane `r` belongs to row `r`, so a kernel reads a
//! panel from its first byte to its last and never moves a number between lanes. Eight blocks of a
//! layered format have a common head: the scales that those of their blocks are multiples of.
//!
//! An operand is a vector that has two weights in each lane, of columns `2 t` and `2 t + 1`, as
//! 16-bit numbers. Low and high bits lie so that an operand is a shift and a mask away. For the
//! matrix units there are operands of bytes, which have four weights in each lane.

use crate::cpu::lanes::{Lanes, PanelLanes};
use crate::linear::weight_format::WeightFormat;
use crate::tiles::{BLOCK_COLUMNS, PANEL_ROWS};

/// Operands of a block.
pub(crate) const OPERANDS: usize = BLOCK_COLUMNS / 2;
/// Operands of a block whose numbers are bytes.
pub(crate) const BYTE_OPERANDS: usize = BLOCK_COLUMNS / 4;
/// Blocks under one head.
pub(crate) const HEAD_BLOCKS: usize = 8;
/// Bytes of one 32-bit number for each row.
const VECTOR_BYTES: usize = 4 * PANEL_ROWS;

/// `weight = scale (q - offset)`, or `scale q + least`.
pub(crate) trait PanelFormat {
    const FORMAT: WeightFormat;
    /// Bits that every weight has: 4 or 8.
    const LOW_BITS: usize;
    /// Bits above them: 0, 1 or 2.
    const HIGH_BITS: usize = 0;
    /// The offset is two to this power.
    const OFFSET_BITS: Option<u32> = None;
    const HAS_LEAST: bool = false;
    /// Scales of a block: for all its columns, or for each half of them.
    const GROUPS: usize = 1;
    /// Scales are those of the head, times a signed byte of the block.
    const LAYERED: bool = false;

    const SIDES: usize = if Self::HAS_LEAST { 2 } else { 1 };
    const HEAD_BYTES: usize = if Self::LAYERED { Self::SIDES * 2 * PANEL_ROWS } else { 0 };
    const SCALE_BYTES: usize =
        Self::SIDES * PANEL_ROWS * if Self::LAYERED { Self::GROUPS } else { 2 };
    const HIGH_BYTES: usize = Self::HIGH_BITS * VECTOR_BYTES;
    const LOW_BYTES: usize = Self::LOW_BITS * VECTOR_BYTES;
    const BLOCK_BYTES: usize = Self::SCALE_BYTES + Self::HIGH_BYTES + Self::LOW_BYTES;

    /// From a panel's start to one of its heads.
    fn head_at(block: usize) -> usize {
        block / HEAD_BLOCKS * (Self::HEAD_BYTES + HEAD_BLOCKS * Self::BLOCK_BYTES)
    }

    /// From a panel's start to one of its blocks.
    fn block_at(block: usize) -> usize {
        Self::head_at(block) + Self::HEAD_BYTES + block % HEAD_BLOCKS * Self::BLOCK_BYTES
    }

    fn panel_bytes(blocks: usize) -> usize {
        blocks.div_ceil(HEAD_BLOCKS) * Self::HEAD_BYTES + blocks * Self::BLOCK_BYTES
    }
}

macro_rules! panel_formats {
    ($($name:ident { $($constant:ident: $type:ty = $value:expr),* })*) => {
        $(
            #[allow(non_camel_case_types)]
            pub(crate) struct $name;

            impl PanelFormat for $name {
                const FORMAT: WeightFormat = WeightFormat::$name;
                $(const $constant: $type = $value;)*
            }
        )*

        /// Runs `work` for `format`, or returns `None` when it has no quantised panels.
        #[inline(always)]
        pub(crate) fn for_panel_format<W: ForPanelFormat>(
            format: WeightFormat,
            work: W,
        ) -> Option<W::Output> {
            match format {
                $(WeightFormat::$name => Some(work.run::<$name>()),)*
                _ => None,
            }
        }
    };
}

panel_formats! {
    Q4_0 { LOW_BITS: usize = 4, OFFSET_BITS: Option<u32> = Some(3) }
    Q4_1 { LOW_BITS: usize = 4, HAS_LEAST: bool = true }
    Q5_0 { LOW_BITS: usize = 4, HIGH_BITS: usize = 1, OFFSET_BITS: Option<u32> = Some(4) }
    Q5_1 { LOW_BITS: usize = 4, HIGH_BITS: usize = 1, HAS_LEAST: bool = true }
    Q8_0 { LOW_BITS: usize = 8, OFFSET_BITS: Option<u32> = Some(7) }
    Iq4Nl { LOW_BITS: usize = 8, OFFSET_BITS: Option<u32> = Some(7) }
    Q2K { LOW_BITS: usize = 4, HAS_LEAST: bool = true, GROUPS: usize = 2, LAYERED: bool = true }
    Q3K {
        LOW_BITS: usize = 4,
        OFFSET_BITS: Option<u32> = Some(2),
        GROUPS: usize = 2,
        LAYERED: bool = true
    }
    Q4K { LOW_BITS: usize = 4, HAS_LEAST: bool = true, LAYERED: bool = true }
    Q5K {
        LOW_BITS: usize = 4,
        HIGH_BITS: usize = 1,
        HAS_LEAST: bool = true,
        LAYERED: bool = true
    }
    Q6K {
        LOW_BITS: usize = 4,
        HIGH_BITS: usize = 2,
        OFFSET_BITS: Option<u32> = Some(5),
        GROUPS: usize = 2,
        LAYERED: bool = true
    }
}

/// Work to be compiled for each format.
pub(crate) trait ForPanelFormat {
    type Output;
    /// Must be `#[inline(always)]`.
    fn run<F: PanelFormat>(self) -> Self::Output;
}

/// A panel, and the lanes of it that one vector takes.
#[derive(Clone, Copy)]
pub(crate) struct PanelPointer {
    /// The panel's first byte.
    pub(crate) bytes: *const u8,
    /// Its first lane here.
    pub(crate) lane: usize,
}

impl PanelPointer {
    /// The operands of a block.
    ///
    /// # Safety
    /// The panel is one of `F`, has the block, and has `COUNT` lanes from this one on.
    #[inline(always)]
    pub(crate) unsafe fn operands<S: PanelLanes, F: PanelFormat>(
        self,
        lanes: S,
        block: usize,
    ) -> [S::Ints; OPERANDS] {
        // No closures: the compiler would not know the level's instructions inside.
        let mut operands = [lanes.splat_ints(0); OPERANDS];
        for (t, operand) in operands.iter_mut().enumerate() {
            // SAFETY: the caller's contract.
            *operand = unsafe { self.operand::<S, F>(lanes, block, t) };
        }
        operands
    }

    /// # Safety
    /// As [`operands`](Self::operands).
    #[inline(always)]
    unsafe fn operand<S: PanelLanes, F: PanelFormat>(
        self,
        lanes: S,
        block: usize,
        t: usize,
    ) -> S::Ints {
        // SAFETY: the caller's contract: all vectors lie inside the block.
        unsafe {
            let high = self.bytes.add(F::block_at(block) + F::SCALE_BYTES + 4 * self.lane);
            let low = low_bits::<S, F>(lanes, high.add(F::HIGH_BYTES), t);
            match F::HIGH_BITS {
                0 => low,
                _ => lanes.or(low, high_bits::<S, F>(lanes, high, t)),
            }
        }
    }

    /// Eight columns of a block, `8 four` and on, by twos: `q`, less the format's offset.
    ///
    /// # Safety
    /// As [`operands`](Self::operands).
    #[inline(always)]
    pub(crate) unsafe fn quant_pairs<S: PanelLanes, F: PanelFormat>(
        self,
        lanes: S,
        block: usize,
        four: usize,
    ) -> [[<S::Floats as Lanes>::Vector; 2]; 4] {
        let base = lanes.floats();
        let offset = F::OFFSET_BITS.map_or(0, |bits| 1_u8 << bits);
        let mut pairs = [[base.splat(0.0); 2]; 4];
        // SAFETY: the caller's contract: all vectors lie inside the block.
        unsafe {
            let low = self.bytes.add(F::block_at(block) + F::SCALE_BYTES + F::HIGH_BYTES);
            let packed = low.add(four * VECTOR_BYTES + 4 * self.lane);
            // No closures: the compiler would not know the level's instructions inside.
            for (i, pair) in pairs.iter_mut().enumerate() {
                *pair = if F::HIGH_BITS == 0 && F::LOW_BITS == 4 {
                    let packed = lanes.load_ints(packed);
                    let first = lanes.shift_right(packed, 4 * i as u32);
                    let second = lanes.shift_right(packed, 4 * i as u32 + 16);
                    [lanes.small_floats(first, offset), lanes.small_floats(second, offset)]
                } else {
                    let operand = self.operand::<S, F>(lanes, block, 4 * four + i);
                    let first = lanes.to_floats(lanes.and(operand, lanes.splat_ints(0xffff)));
                    let second = lanes.to_floats(lanes.shift_right(operand, 16));
                    let offset = base.splat(f32::from(offset));
                    [base.sub(first, offset), base.sub(second, offset)]
                };
            }
        }
        pairs
    }

    /// An operand of bytes: columns `8 (i / 2)` and on, in
    /// [`INT8_ORDER`](crate::tiles::INT8_ORDER).
    ///
    /// # Safety
    /// As [`operands`](Self::operands).
    #[inline(always)]
    pub(crate) unsafe fn int8_operand<S: PanelLanes, F: PanelFormat>(
        self,
        lanes: S,
        block: usize,
        i: usize,
    ) -> S::Ints {
        let (eight, half) = (i / 2, i % 2);
        // SAFETY: the caller's contract: all vectors lie inside the block.
        unsafe {
            let high = self.bytes.add(F::block_at(block) + F::SCALE_BYTES + 4 * self.lane);
            let low = high.add(F::HIGH_BYTES);
            let mut bytes = if F::LOW_BITS == 8 {
                lanes.load_ints(low.add(i * VECTOR_BYTES))
            } else {
                let packed = lanes.load_ints(low.add(eight * VECTOR_BYTES));
                let shifted = if half == 0 { packed } else { lanes.shift_right(packed, 4) };
                lanes.and(shifted, lanes.splat_ints(0x0f0f_0f0f))
            };
            if 0 < F::HIGH_BITS {
                let [first, second] = [4 * eight + half, 4 * eight + half + 2];
                let second = lanes.shift_left(high_bits::<S, F>(lanes, high, second), 8);
                bytes = lanes.or(bytes, high_bits::<S, F>(lanes, high, first));
                bytes = lanes.or(bytes, second);
            }
            bytes
        }
    }

    /// The scale of a group of columns, and what its weights have added.
    ///
    /// # Safety
    /// As [`operands`](Self::operands), and the format has the group.
    #[inline(always)]
    pub(crate) unsafe fn scale_and_least<S: PanelLanes, F: PanelFormat>(
        self,
        lanes: S,
        block: usize,
        group: usize,
    ) -> [<S::Floats as Lanes>::Vector; 2] {
        let base = lanes.floats();
        let mut sides = [base.splat(0.0); 2];
        for (i, side) in sides.iter_mut().enumerate().take(F::SIDES) {
            // SAFETY: the caller's contract: all numbers lie inside the block and its head.
            *side = unsafe {
                let block_at = self.bytes.add(F::block_at(block));
                if F::LAYERED {
                    let head = self.bytes.add(F::head_at(block) + 2 * (i * PANEL_ROWS + self.lane));
                    let factor = block_at.add((i * F::GROUPS + group) * PANEL_ROWS + self.lane);
                    base.mul(base.load_f16(head), lanes.load_bytes(factor))
                } else {
                    base.load_f16(block_at.add(2 * (i * PANEL_ROWS + self.lane)))
                }
            };
        }
        sides
    }
}

/// Where operand `t` lies when so many bits of each weight are packed: the vector, and the place
/// in it, `bits` bits each.
///
/// Four bits: each 32-bit number holds the weights of four operands. Eight bits: of two, which are
/// two apart, so that its bytes are in [`INT8_ORDER`].
pub(crate) const fn place_of(bits: usize, t: usize) -> (usize, usize) {
    if bits == 8 {
        return (t / 4 * 2 + t % 2, t / 2 % 2);
    }
    let shared = 16 / bits;
    (t / shared, t % shared)
}

/// # Safety
/// The block's low bits lie at `from`.
#[inline(always)]
unsafe fn low_bits<S: PanelLanes, F: PanelFormat>(lanes: S, from: *const u8, t: usize) -> S::Ints {
    let (vector, place) = place_of(F::LOW_BITS, t);
    let mask = (1 << F::LOW_BITS) - 1;
    // SAFETY: the caller's contract.
    let packed = unsafe { lanes.load_ints(from.add(vector * VECTOR_BYTES)) };
    let shifted = match place {
        0 => packed,
        place => lanes.shift_right(packed, (place * F::LOW_BITS) as u32),
    };
    lanes.and(shifted, lanes.splat_ints(mask << 16 | mask))
}

/// The bits above the low four, where they belong.
///
/// # Safety
/// The block's high bits lie at `from`.
#[inline(always)]
unsafe fn high_bits<S: PanelLanes, F: PanelFormat>(lanes: S, from: *const u8, t: usize) -> S::Ints {
    let (vector, place) = place_of(F::HIGH_BITS, t);
    let mask = ((1 << F::HIGH_BITS) - 1) << F::LOW_BITS;
    // SAFETY: the caller's contract.
    let packed = unsafe { lanes.load_ints(from.add(vector * VECTOR_BYTES)) };
    let bit = place * F::HIGH_BITS;
    let shifted = match bit {
        0..4 => lanes.shift_left(packed, (F::LOW_BITS - bit) as u32),
        _ => lanes.shift_right(packed, (bit - F::LOW_BITS) as u32),
    };
    lanes.and(shifted, lanes.splat_ints(mask << 16 | mask))
}
