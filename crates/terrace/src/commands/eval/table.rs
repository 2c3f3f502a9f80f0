//! A table in columns, which is also one of Markdown.

use std::fmt;

pub struct Table {
    /// The first row is the header; all have as many cells.
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(header: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Table { rows: vec![header.into_iter().map(Into::into).collect()] }
    }

    pub fn push(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.rows[0].len(), "cells of a row");
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
    /// The first column stands left, numbers stand right.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        for (index, row) in self.rows.iter().enumerate() {
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "| {cell:<width$} |")?,
                    _ => write!(f, " {cell:>width$} |")?,
                }
            }
            writeln!(f)?;
            if index == 0 {
                for (column, &width) in widths.iter().enumerate() {
                    match column {
                        0 => write!(f, "|{:-<1$}|", "", width + 2)?,
                        _ => write!(f, "{:-<1$}:|", "", width + 1)?,
                    }
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_cell() {
        let mut table = Table::new(["cache", "ppl"]);
        table.push(vec!["h2o".into(), "12.25".into()]);
        let want = "| cache |   ppl |\n|-------|------:|\n| h2o   | 12.25 |\n";
        assert_eq!(table.to_string(), want);
    }
}
