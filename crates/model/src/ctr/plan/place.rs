//! Where a tensor lies during a step.

/// Some columns of rows, so many of each sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ctr) struct Place {
    pub memory: Memory,
    pub rows: usize,
    pub start: usize,
    pub width: usize,
    /// Numbers from one row to the next.
    pub stride: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ctr) enum Memory {
    /// By its number: a value first, then the slot that it has.
    Slot(usize),
    /// The result, f32, whose rows have the stride that its caller gives them.
    Output,
}

impl Place {
    /// The same numbers as so many rows of each sample, if they can be seen so.
    pub fn as_rows(self, rows: usize) -> Option<Place> {
        if rows == self.rows {
            return Some(self);
        }
        let width = self.rows * self.width / rows;
        (self.stride == self.width).then_some(Place { rows, width, stride: width, ..self })
    }

    /// With as many columns as a product wants, if there are so many, and they lie as it wants.
    pub fn padded(self, multiple: usize) -> Option<Place> {
        let width = self.width.next_multiple_of(multiple);
        let is_aligned = [self.start, self.stride].iter().all(|at| at.is_multiple_of(multiple));
        (is_aligned && self.start + width <= self.stride).then_some(Place { width, ..self })
    }
}
