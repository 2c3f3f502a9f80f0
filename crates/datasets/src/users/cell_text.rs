//! Cells of a table as pandas reads and writes them.
//!
//! The original reads tables with pandas and writes them again. A column whose cells are all whole
//! numbers stays as it is; with a cell missing its numbers are floating point, `1` becomes `1.0`;
//! any other text makes the whole column text.

/// What pandas takes for a missing cell.
const MISSING: [&[u8]; 19] = [
    b"",
    b"#N/A",
    b"#N/A N/A",
    b"#NA",
    b"-1.#IND",
    b"-1.#QNAN",
    b"-NaN",
    b"-nan",
    b"1.#IND",
    b"1.#QNAN",
    b"<NA>",
    b"N/A",
    b"NA",
    b"NULL",
    b"NaN",
    b"None",
    b"n/a",
    b"nan",
    b"null",
];

fn is_missing(cell: &[u8]) -> bool {
    MISSING.contains(&cell)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole,
    Float,
    Text,
}

/// The cells of a column, each as it is written; a missing one is empty.
pub fn written_cells(cells: &[&[u8]]) -> Vec<Vec<u8>> {
    let kind = kind(cells);
    let written = |cell: &&[u8]| match kind {
        _ if is_missing(cell) => Vec::new(),
        Kind::Whole => whole(cell).expect("the kind is checked").to_string().into_bytes(),
        Kind::Float => python_float(float(cell).expect("the kind is checked")).into_bytes(),
        Kind::Text => cell.to_vec(),
    };
    cells.iter().map(written).collect()
}

fn kind(cells: &[&[u8]]) -> Kind {
    let mut present = cells.iter().filter(|cell| !is_missing(cell));
    let has_missing = cells.iter().any(|cell| is_missing(cell));
    if !has_missing && present.clone().all(|cell| whole(cell).is_some()) {
        return Kind::Whole;
    }
    if present.all(|cell| float(cell).is_some()) { Kind::Float } else { Kind::Text }
}

fn whole(cell: &[u8]) -> Option<i64> {
    std::str::from_utf8(cell).ok()?.parse().ok()
}

fn float(cell: &[u8]) -> Option<f64> {
    std::str::from_utf8(cell).ok()?.parse().ok()
}

/// As Python prints a number: the fewest digits that read back as the same number.
fn python_float(number: f64) -> String {
    const POSITIONAL: std::ops::Range<i32> = -4..16;
    if !number.is_finite() {
        return number.to_string();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').expect("it is scientific");
    let exponent: i32 = exponent.parse().expect("it is a number");
    if !POSITIONAL.contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let text = number.to_string();
    if text.contains('.') { text } else { format!("{text}.0") }
}

/// Appends a cell; in quotes where it would be read as something else.
pub fn push_cell(out: &mut Vec<u8>, cell: &[u8]) {
    if !cell.iter().any(|byte| b",\"\r\n".contains(byte)) {
        out.extend_from_slice(cell);
        return;
    }
    out.push(b'"');
    for byte in cell {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cells: &[&str], want: &[&str]) {
        let cells: Vec<&[u8]> = cells.iter().map(|cell| cell.as_bytes()).collect();
        let written: Vec<String> =
            written_cells(&cells).into_iter().map(|it| String::from_utf8(it).unwrap()).collect();
        assert_eq!(written, want);
    }

    #[test]
    fn columns() {
        check(&["1", "-2", "007"], &["1", "-2", "7"]);
        check(&["1", "", "3"], &["1.0", "", "3.0"]);
        check(&["1", "2.50"], &["1.0", "2.5"]);
        check(&["1", "x", "nan", "1.50"], &["1", "x", "", "1.50"]);
        check(&["", "NA"], &["", ""]);
        check(
            &["", "1e300", "123456789012345678", "0.00001"],
            &["", "1e+300", "1.2345678901234568e+17", "1e-05"],
        );
        check(&[], &[]);
    }

    #[test]
    fn floats_as_python_prints_them() {
        let floats = [0.1, 1e15, 1e16, 1.5e-5, 0.0001, -2.0, 123.456];
        let want = ["0.1", "1000000000000000.0", "1e+16", "1.5e-05", "0.0001", "-2.0", "123.456"];
        assert_eq!(floats.map(python_float), want);
    }

    #[test]
    fn quotes() {
        let cell = |text: &str| {
            let mut out = Vec::new();
            push_cell(&mut out, text.as_bytes());
            String::from_utf8(out).unwrap()
        };
        assert_eq!(cell("plain text"), "plain text");
        assert_eq!(cell("(0,10]"), "\"(0,10]\"");
        assert_eq!(cell("a\"b"), "\"a\"\"b\"");
    }
}
