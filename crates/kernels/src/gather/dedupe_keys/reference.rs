//! The plain version, which serves on the host.

/// Fills `unique` with the different keys in the order of their first appearance, and `inverse`
/// with the number of each key among them.
pub fn dedupe_keys(keys: &[i64], unique: &mut Vec<i64>, inverse: &mut Vec<u32>) {
    unique.clear();
    inverse.clear();
    inverse.reserve(keys.len());
    // Open addressing over numbers of unique keys, at most half full.
    let slots = (2 * keys.len()).next_power_of_two();
    let mut table = vec![u32::MAX; slots];
    for key in keys {
        let mut slot = spread(*key) & (slots - 1);
        let number = loop {
            match table[slot] {
                u32::MAX => {
                    table[slot] = unique.len() as u32;
                    unique.push(*key);
                    break table[slot];
                }
                number if unique[number as usize] == *key => break number,
                _ => slot = (slot + 1) & (slots - 1),
            }
        };
        inverse.push(number);
    }
}

fn spread(key: i64) -> usize {
    let product = key.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product ^ product >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_numbered_by_first_appearance() {
        let (mut unique, mut inverse) = (vec![9], vec![9]);
        dedupe_keys(&[5, -1, 5, i64::MAX, -1, 0], &mut unique, &mut inverse);
        assert_eq!((unique, inverse), (vec![5, -1, i64::MAX, 0], vec![0, 1, 0, 2, 1, 3]));
        let (mut unique, mut inverse) = (Vec::new(), Vec::new());
        dedupe_keys(&[], &mut unique, &mut inverse);
        assert!(unique.is_empty() && inverse.is_empty());
    }
}
