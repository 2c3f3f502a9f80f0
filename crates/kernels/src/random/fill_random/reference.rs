//! One number.

use crate::random::philox::philox4x32;

/// Near-normal, with mean 0 and standard deviation `factor`: the sum of eight uniform numbers of
/// 16 bits. Only whole numbers are summed, so that no device rounds otherwise.
pub(crate) fn number(index: u64, seed: u64, factor: f32) -> f32 {
    let halves = words(index, seed).map(|word| (word & 0xffff) + (word >> 16));
    // Twice the distance from the mean, to stay whole.
    let sum = 2 * halves.iter().sum::<u32>() as i32 - 8 * 65535;
    // The deviation of a sum of eight is 65536 sqrt(8 / 12).
    sum as f32 * (1.0 / 107_019.84) * factor
}

pub(crate) fn bits(index: u64, seed: u64) -> u32 {
    words(index, seed)[0]
}

fn words(index: u64, seed: u64) -> [u32; 4] {
    let counter = [index as u32, (index >> 32) as u32, 0, 0];
    philox4x32(counter, [seed as u32, (seed >> 32) as u32])
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_look_normal() {
        let numbers: Vec<f64> = (0..100_000).map(|i| f64::from(number(i, 7, 0.5))).collect();
        let mean =
            |power: i32| numbers.iter().map(|x| x.powi(power)).sum::<f64>() / numbers.len() as f64;
        assert!(mean(1).abs() < 0.01, "mean {}", mean(1));
        assert!((mean(2).sqrt() - 0.5).abs() < 0.005, "deviation {}", mean(2).sqrt());
        let kurtosis = mean(4) / mean(2).powi(2);
        assert!((2.7..3.0).contains(&kurtosis), "kurtosis {kurtosis}, a normal has 3");
    }
}
