//! What one rendering may do, counted in bytes that operations touch or make.
//!
//! Steps alone bound nothing: one step may double a text, or compare two trees that share their
//! branches and have no end. So every operation that can be large pays for its operands first.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

/// A model reads a few megabytes at most, and a template handles each text a few times.
const MAX_WORK: usize = 64 << 20;
/// To look into a value takes as long as to copy so many bytes; to copy a list of them less.
const VALUE_BYTES: usize = 128;
const ITEM_BYTES: usize = 16;
/// Lists in lists; each level takes stack when it is shown, compared or dropped.
const MAX_NESTING: usize = 100;

/// What is left of [`MAX_WORK`].
struct Left(usize);

/// How an operand is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Bytes of a text, items of a list.
    Outside,
    /// Every value in it, texts as one.
    Values,
    /// Every value in it, and the bytes of all texts.
    Whole,
}

/// Pays for an operation on `values`.
pub fn pay_for(state: &mut State<'_, '_>, values: &[Value], size: Size) -> Result<(), Error> {
    let left = left(state);
    for value in values {
        *left = less(*left, value, size, MAX_NESTING)?;
    }
    Ok(())
}

/// Pays for so many bytes.
pub fn pay(state: &mut State<'_, '_>, amount: usize) -> Result<(), Error> {
    let left = left(state);
    *left = left.checked_sub(amount).ok_or_else(too_much)?;
    Ok(())
}

/// A list in place of a view of other lists: views of views would take stack without end.
pub fn settled(value: Value) -> Result<Value, Error> {
    if value.kind() != ValueKind::Iterable {
        return Ok(value);
    }
    Ok(Value::from(value.try_iter()?.collect::<Vec<_>>()))
}

fn left<'s>(state: &'s mut State<'_, '_>) -> &'s mut usize {
    &mut state.get_or_insert_extension(Left(MAX_WORK)).0
}

fn less(left: usize, value: &Value, size: Size, nesting: usize) -> Result<usize, Error> {
    let spend = |left: usize, amount: usize| left.checked_sub(amount).ok_or_else(too_much);
    if let Some(bytes) = value.as_bytes() {
        return spend(
            left,
            if size == Size::Values { VALUE_BYTES } else { ITEM_BYTES + bytes.len() },
        );
    }
    let Some(items) = value.as_object().and_then(|object| object.try_iter()) else {
        return spend(left, ITEM_BYTES);
    };
    if size == Size::Outside {
        return spend(left, value.len().unwrap_or(0).saturating_mul(ITEM_BYTES));
    }
    let mut left = spend(left, VALUE_BYTES)?;
    let Some(deeper) = nesting.checked_sub(1) else {
        let problem = format!("values nested more than {MAX_NESTING} deep");
        return Err(Error::new(ErrorKind::InvalidOperation, problem));
    };
    let is_map = value.kind() == ValueKind::Map;
    for item in items {
        if is_map {
            left = less(left, &value.get_item(&item)?, size, deeper)?;
        }
        left = less(left, &item, size, deeper)?;
    }
    Ok(left)
}

fn too_much() -> Error {
    let problem = format!("the template works on more than {MAX_WORK} bytes");
    Error::new(ErrorKind::OutOfFuel, problem)
}
