//! Lists of whole numbers as text: `[1, 2, 3]`.

use crate::text::whole_prefix;

/// `None` where it is no such list.
pub fn ids(cell: &[u8]) -> Option<Vec<i64>> {
    let mut rest = cell.trim_ascii().strip_prefix(b"[")?.strip_suffix(b"]")?.trim_ascii();
    let mut ids = Vec::with_capacity(count(cell));
    while !rest.is_empty() {
        let (id, bytes) = whole_prefix(rest)?;
        ids.push(id);
        rest = rest[bytes..].trim_ascii_start();
        if rest.is_empty() {
            break;
        }
        rest = rest.strip_prefix(b",")?.trim_ascii_start();
        if rest.is_empty() {
            return None;
        }
    }
    Some(ids)
}

/// How many numbers a list has, without reading them.
pub fn count(cell: &[u8]) -> usize {
    let has_digit = cell.iter().any(u8::is_ascii_digit);
    let commas = cell.iter().filter(|byte| **byte == b',').count();
    if has_digit { commas + 1 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let ids = |text: &str| ids(text.as_bytes());
        assert_eq!(ids("[1, -2,3 , 4]"), Some(vec![1, -2, 3, 4]));
        assert_eq!(ids("[7]"), Some(vec![7]));
        assert_eq!(ids(" [] "), Some(vec![]));
        for bad in ["", "[", "1, 2", "[1, 2", "[1,]", "[,1]", "[1 2]", "[1.5]", "[a]", "[1, ]"] {
            assert_eq!(ids(bad), None, "{bad}");
        }
        assert_eq!(["[1, 2]", "[5]", "[]"].map(|text| count(text.as_bytes())), [2, 1, 0]);
    }
}
