//! Numbers as they are read in a sentence.

/// With four digits that count; very small and very large ones with an exponent.
pub fn short_number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    if !(1e-3..1e7).contains(&size) {
        return format!("{value:.3e}");
    }
    let digits = usize::try_from(3 - size.log10().floor() as i32).unwrap_or(0);
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_count() {
        for (value, text) in [
            (3.21456, "3.215"),
            (0.0123456, "0.01235"),
            (123_456.7, "123457"),
            (-2.0, "-2.000"),
            (3e-4, "3.000e-4"),
            (0.0, "0"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(short_number(value), text);
        }
    }
}
