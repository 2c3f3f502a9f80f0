//! A table in columns for a terminal, as wide as its longest cells.

use std::fmt;

pub struct TextTable {
    /// The first row has the titles; all have as many cells.
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub fn new<const COLUMNS: usize>(titles: [&str; COLUMNS]) -> Self {
        TextTable { rows: vec![titles.map(str::to_owned).to_vec()] }
    }

    pub fn push<const COLUMNS: usize>(&mut self, row: [String; COLUMNS]) {
        assert_eq!(COLUMNS, self.rows[0].len(), "cells of a row");
        self.rows.push(row.to_vec());
    }
}

/// The first column stands left, the others right.
impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        for (index, row) in self.rows.iter().enumerate() {
            let cell = |(column, (cell, width)): (usize, (&String, &usize))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            };
            let cells: Vec<String> = row.iter().zip(&widths).enumerate().map(cell).collect();
            let end = if index + 1 == self.rows.len() { "" } else { "\n" };
            write!(f, "{}{end}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cells() {
        let mut table = TextTable::new(["table", "rows"]);
        table.push(["m.wide".to_owned(), "7".to_owned()]);
        table.push(["m".to_owned(), "12345".to_owned()]);
        assert_eq!(table.to_string(), "table    rows\nm.wide      7\nm       12345");
    }
}
