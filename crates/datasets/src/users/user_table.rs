//! What is written behind each user's lists.

use std::collections::HashMap;

use super::cell_text::{push_cell, written_cells};
use super::raw_table::RawTable;

/// A column of the output.
#[derive(Clone, Debug)]
pub struct UserColumn {
    /// In the raw table.
    pub source: String,
    pub name: String,
    pub content: UserContent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserContent {
    /// Numbers for the different cells: 1, 2, … in the order in which they first appear.
    Code,
    /// The same, of ages in the groups of MovieLens-1M.
    AgeGroupCode,
    /// What the cell has.
    Cell,
}

/// Rows by user.
#[derive(Debug, Default)]
pub struct UserTable {
    names: Vec<String>,
    /// The cells of a row, each behind a comma.
    rows: HashMap<i64, Box<[u8]>>,
    /// Of each column of codes: its name, and how many there are.
    pub codes: Vec<(String, usize)>,
}

impl UserTable {
    /// All `columns` must be in the table.
    pub fn new(raw: &RawTable, columns: &[UserColumn]) -> Self {
        let mut texts = vec![Vec::new(); raw.users.len()];
        let mut codes = Vec::new();
        for column in columns {
            let at = raw.names.iter().position(|name| *name == column.source);
            let cells = raw.column(at.expect("the caller has looked"));
            let cells = match column.content {
                UserContent::AgeGroupCode => cells.into_iter().map(age_group).collect(),
                UserContent::Code | UserContent::Cell => written_cells(&cells),
            };
            let cells = match column.content {
                UserContent::Cell => cells,
                UserContent::Code | UserContent::AgeGroupCode => {
                    let (coded, count) = coded(&cells);
                    codes.push((column.name.clone(), count));
                    coded
                }
            };
            for (text, cell) in texts.iter_mut().zip(cells) {
                text.push(b',');
                push_cell(text, &cell);
            }
        }
        let rows = raw.users.iter().copied().zip(texts.into_iter().map(Vec::into_boxed_slice));
        let names = columns.iter().map(|column| column.name.clone()).collect();
        UserTable { names, rows: rows.collect(), codes }
    }

    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The cells of a user, each behind a comma.
    pub fn row(&self, user: i64) -> Option<&[u8]> {
        self.rows.get(&user).map(|row| &**row)
    }
}

/// Codes of cells, and how many different ones there are.
fn coded(cells: &[Vec<u8>]) -> (Vec<Vec<u8>>, usize) {
    let mut codes: HashMap<&[u8], usize> = HashMap::new();
    let mut code = |cell| {
        let next = codes.len() + 1;
        *codes.entry(cell).or_insert(next)
    };
    let coded = cells.iter().map(|cell| code(cell).to_string().into_bytes()).collect();
    (coded, codes.len())
}

/// The lowest age of the group that an age is in; another cell stays what it is.
fn age_group(cell: &[u8]) -> Vec<u8> {
    const GROUPS: [u32; 7] = [56, 50, 45, 35, 25, 18, 1];
    let age = std::str::from_utf8(cell).ok().and_then(|text| text.parse::<u32>().ok());
    let group = age.and_then(|age| GROUPS.into_iter().find(|lowest| *lowest <= age));
    group.map_or_else(|| cell.to_vec(), |lowest| lowest.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(source: &str, content: UserContent) -> UserColumn {
        UserColumn { source: source.to_owned(), name: source.to_owned(), content }
    }

    #[test]
    fn codes_count_from_one_by_first_appearance() {
        let rows = [["b", "24", "1"], ["", "19", ""], ["b", "33", "3"], ["a", "34", "4"]];
        let row = |cells: &[&str; 3]| cells.iter().map(|cell| Box::from(cell.as_bytes())).collect();
        let raw = RawTable {
            names: ["degree", "age", "feat"].map(str::to_owned).to_vec(),
            users: vec![7, 5, 6, 9],
            rows: rows.iter().map(row).collect(),
        };
        let columns = [
            column("degree", UserContent::Code),
            column("age", UserContent::AgeGroupCode),
            column("feat", UserContent::Cell),
        ];
        let table = UserTable::new(&raw, &columns);
        let row = |user| table.row(user).map(|row| String::from_utf8(row.to_vec()).unwrap());
        assert_eq!(row(7).as_deref(), Some(",1,1,1.0"));
        assert_eq!(row(5).as_deref(), Some(",2,1,"));
        assert_eq!(row(6).as_deref(), Some(",1,2,3.0"));
        assert_eq!(row(9).as_deref(), Some(",3,2,4.0"));
        assert_eq!(row(8), None);
        assert_eq!(table.codes, [("degree".to_owned(), 3), ("age".to_owned(), 2)]);
    }
}
