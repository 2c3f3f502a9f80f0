//! Slices that threads share part by part.

use super::WorkerPool;
use crate::dtype::Element;
use crate::shared_rows::SharedRows;
use crate::view::ViewMut;

impl WorkerPool {
    /// Calls `f` with parts of both slices, which are as long as each other: `length` elements
    /// each, and the rest.
    ///
    /// Panics unless the lengths are equal.
    pub fn each_part<T: Sync, U: Element>(
        &self,
        length: usize,
        from: &[T],
        to: &mut [U],
        f: &(dyn Fn(&[T], &mut [U]) + Sync),
    ) {
        assert_eq!(from.len(), to.len(), "parts of two slices");
        let parts = from.len() / length;
        let (whole, rest) = to.split_at_mut(parts * length);
        f(&from[parts * length..], rest);
        if parts == 0 {
            return;
        }
        let mut whole = ViewMut::of(whole, [parts, length]);
        let whole = SharedRows::<U>::new(&mut whole);
        self.run(parts, &|_, part| {
            // SAFETY: each part is one task's.
            f(&from[part * length..(part + 1) * length], unsafe { whole.row_mut(part) });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_given_once() {
        let pool = WorkerPool::new(3).expect("threads");
        for count in [0, 1, 7, 8, 9, 100] {
            let from: Vec<i64> = (0..count).collect();
            let mut to = vec![0i32; from.len()];
            pool.each_part(8, &from, &mut to, &|from, to| {
                from.iter().zip(to).for_each(|(from, to)| *to += 1 + *from as i32);
            });
            assert!(to.iter().zip(1..).all(|(found, want)| *found == want), "{to:?}");
        }
    }
}
