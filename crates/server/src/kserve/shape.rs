//! What a tensor's shape says about its elements.

use super::infer_error::InferError;

/// Dimensions that a tensor may have.
const DIMS_MOST: usize = 64;

/// How many elements a tensor of that shape has; `tensor` is its name, for the complaint.
pub fn elements_of(tensor: &str, shape: &[i64]) -> Result<usize, InferError> {
    if shape.len() > DIMS_MOST {
        let dims = shape.len();
        let message = format!("{tensor:?} has {dims} dimensions, the limit is {DIMS_MOST}");
        return Err(InferError::invalid(message));
    }
    let product = shape
        .iter()
        .try_fold(1_usize, |product, &dim| product.checked_mul(usize::try_from(dim).ok()?));
    // An empty dimension makes all of it empty, whatever the others are.
    let is_empty = shape.contains(&0) && shape.iter().all(|dim| *dim >= 0);
    match product {
        Some(elements) => Ok(elements),
        None if is_empty => Ok(0),
        None => {
            let why = match shape.iter().find(|dim| **dim < 0) {
                Some(dim) => {
                    format!("{dim} is negative; a request says how long each dimension is")
                }
                None => "its elements are more than can be counted".to_owned(),
            };
            Err(InferError::invalid(format!("{tensor:?} has the shape {shape:?}: {why}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(shape: &[i64], want: Result<usize, &str>) {
        let found = elements_of("T", shape).map_err(|error| error.message);
        match want {
            Ok(elements) => assert_eq!(found, Ok(elements)),
            Err(part) => assert!(found.as_ref().is_err_and(|it| it.contains(part)), "{found:?}"),
        }
    }

    #[test]
    fn elements_are_counted() {
        check(&[], Ok(1));
        check(&[3], Ok(3));
        check(&[1, 3, 5], Ok(15));
        check(&[3, 0], Ok(0));
        check(&[i64::MAX, i64::MAX, 0], Ok(0));
    }

    #[test]
    fn shapes_that_lie_are_refused() {
        check(&[-1], Err("\"T\" has the shape [-1]: -1 is negative"));
        check(&[-1, -1], Err("negative"));
        check(&[-3, 0], Err("negative"));
        check(&[i64::MAX, 3], Err("more than can be counted"));
        check(&[1 << 32, 1 << 32], Err("more than can be counted"));
        check(&[1; 65], Err("65 dimensions, the limit is 64"));
    }
}
