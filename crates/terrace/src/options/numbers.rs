//! Numbers as options take them: a wrong one is answered with the numbers that are allowed.

use std::fmt::Display;
use std::str::FromStr;

/// Any number that is not negative.
pub fn whole_number<T: Whole>(text: &str) -> Result<T, String> {
    number(text, 0)
}

/// A size or a count that cannot be none.
pub fn at_least_one<T: Whole>(text: &str) -> Result<T, String> {
    number(text, 1)
}

/// A part of a GPU's memory that holds something.
pub fn fraction(text: &str) -> Result<f32, String> {
    let fraction = text.parse().ok().filter(|fraction| (0.05..=1.0).contains(fraction));
    fraction.ok_or_else(|| "it must be a number from 0.05 to 1".to_owned())
}

/// An unsigned type.
pub trait Whole: FromStr + Display + From<u8> + PartialOrd {
    const MAX: Self;
}

impl Whole for usize {
    const MAX: usize = usize::MAX;
}

impl Whole for u64 {
    const MAX: u64 = u64::MAX;
}

impl Whole for u32 {
    const MAX: u32 = u32::MAX;
}

fn number<T: Whole>(text: &str, least: u8) -> Result<T, String> {
    match text.parse::<T>() {
        Ok(number) if T::from(least) <= number => Ok(number),
        _ => Err(format!("it must be a whole number from {least} to {}", T::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_answered_with_the_range() {
        assert_eq!(whole_number::<u32>("0"), Ok(0));
        assert_eq!(at_least_one::<usize>("8"), Ok(8));
        for wrong in ["-1", "4294967296", "1.5", "nan", "inf", "", "x"] {
            let want = "it must be a whole number from 0 to 4294967295";
            assert_eq!(whole_number::<u32>(wrong), Err(want.to_owned()), "{wrong}");
        }
        let want = format!("it must be a whole number from 1 to {}", u64::MAX);
        assert_eq!(at_least_one::<u64>("0"), Err(want));
        assert_eq!(fraction("0.5"), Ok(0.5));
        for wrong in ["0", "1.01", "nan", "-1", "half"] {
            assert!(fraction(wrong).is_err_and(|why| why.contains("0.05 to 1")), "{wrong}");
        }
    }
}
