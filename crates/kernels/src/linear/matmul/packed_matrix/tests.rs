//! What is packed reads as what the file says.

use terrace_device::WorkerPool;

use super::*;
use crate::linear::unpack::reference::unpack;
use crate::random::SplitMix;

/// As `packed.cuh` reads one weight of a block.
fn weight(packing: Packing, block: &[u8], row: usize, column: usize) -> f32 {
    let scales_at = scales_at(packing);
    let (in_half, side) = (row % 8, row / 8);
    let lane = in_half * 4 + column % 8 / 2;
    let (step, register) = (column / 16, side + column / 8 % 2 * 2);
    let word = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap());
    let low = word((lane * 2 + step) * 4) >> (register * 4 + column % 2 * 16) & 15;
    let scale = |at: usize| f16_at(block, scales_at + 2 * at);
    let place = in_half * 2 + side;
    match packing {
        Packing::S4 => scale(place) * (low as f32 - 8.0),
        Packing::Q4 => scale(2 * place) * low as f32 + scale(2 * place + 1),
        Packing::Q6 => {
            let high = word(256 + lane * 4) >> (step * 8 + register * 2 + column % 2 * 16) & 3;
            scale(2 * place + step) * ((low | high << 4) as f32 - 32.0)
        }
        Packing::Q8 => {
            let byte = (lane * 4 + step * 2 + register / 2) * 4 + register % 2 + column % 2 * 2;
            scale(place) * f32::from(block[byte] as i8)
        }
    }
}

#[test]
fn every_weight_is_found_again() {
    let workers = WorkerPool::new(2).unwrap();
    let mut random = SplitMix::new(7);
    for format in WeightFormat::ALL {
        let Some(packing) = Packing::of(format) else { continue };
        let (rows, columns) = (37, 512);
        let bytes = random.weights(format, rows * columns);
        let row_bytes = format.row_bytes(columns).unwrap();
        let row = |i: usize| FormatRow { format, bytes: &bytes[i * row_bytes..][..row_bytes] };
        let mut packed = vec![0xff; packing.matrix_bytes(rows, columns)];
        pack(packing, rows, columns, row, &workers, &mut packed);
        let blocks: Vec<&[u8]> = packed.chunks_exact(packing.block_bytes()).collect();
        let mut want = vec![f32::NAN; columns];
        for i in 0..rows {
            unpack(format, row(i).bytes, &mut want);
            // Products of two scales are rounded to f16, and so are sixteen times as large.
            let largest = want.iter().fold(0.0f32, |most, x| most.max(x.abs()));
            for (column, want) in want.iter().enumerate() {
                let block = blocks[i / 16 * (columns / 32) + column / 32];
                let got = weight(packing, block, i % 16, column % 32);
                let off = (got - want).abs();
                assert!(off <= largest / 500.0, "{format:?} {i},{column}: {got} for {want}");
                if !matches!(format, WeightFormat::Q3K | WeightFormat::Q4K | WeightFormat::Q6K) {
                    assert!(off <= 1e-6, "{format:?} {i},{column}: {got} for {want}");
                }
            }
        }
    }
}
