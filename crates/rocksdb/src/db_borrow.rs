//! The borrow of an open database by what is made from it and must be destroyed before it.
//!
//! A plain reference would not do: the compiler lets a value with one live on after the database
//! is gone, as long as the value's own destructor does not use the reference, and the destructors
//! of the library's objects do not. This one has a destructor, so it may not.

use std::ops::Deref;

use crate::open_db::OpenDb;

#[derive(Clone)]
pub struct DbBorrow<'db>(&'db OpenDb);

impl<'db> DbBorrow<'db> {
    pub fn new(open: &'db OpenDb) -> Self {
        DbBorrow(open)
    }

    pub fn is_of(&self, other: &DbBorrow<'_>) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Deref for DbBorrow<'_> {
    type Target = OpenDb;

    fn deref(&self) -> &OpenDb {
        self.0
    }
}

impl Drop for DbBorrow<'_> {
    fn drop(&mut self) {}
}
