//! The typed values that describe a model, read in place.
//!
//! Arrays stay in the mapped file until they are asked for: a vocabulary is not copied.

use std::ops::Range;

use super::cursor::Cursor;

/// Arrays in arrays; no known file has more than one level.
const MAX_ARRAY_DEPTH: usize = 4;

/// One value, or where to find it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    /// Bytes of the file, checked to be UTF-8.
    Text(Range<usize>),
    /// `count` values of `kind`, checked when the file was opened.
    Array {
        kind: ValueType,
        count: usize,
        range: Range<usize>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Text,
    Array,
    U64,
    I64,
    F64,
}

/// A type that metadata can be read as; `'a` is the file's lifetime.
pub trait FromMetadata<'a>: Sized {
    /// The type as messages name it.
    const WANTED: &'static str;

    /// The value of `file`'s metadata, or `None` when it is of another type.
    fn from_metadata(value: &Value, file: &'a [u8]) -> Option<Self>;
}

impl Value {
    /// Reads and checks a value of `kind` at the cursor.
    pub fn read(kind: ValueType, cursor: &mut Cursor<'_>) -> Result<Value, String> {
        match kind {
            ValueType::Text => {
                let text = cursor.str()?;
                let end = cursor.position();
                Ok(Value::Text(end - text.len()..end))
            }
            ValueType::Array => read_array(cursor, MAX_ARRAY_DEPTH),
            _ => read_scalar(kind, cursor),
        }
    }

    /// What it is, for messages.
    pub fn describe(&self) -> String {
        match self {
            Value::Unsigned(value) => format!("the number {value}"),
            Value::Signed(value) => format!("the number {value}"),
            Value::Float(value) => format!("the number {value}"),
            Value::Bool(value) => format!("{value}"),
            Value::Text(range) => format!("a text of {} bytes", range.len()),
            Value::Array { kind, count, .. } => format!("an array of {count} {kind:?}"),
        }
    }

    /// An array of plain values, each as a `T`; `None` when one is not.
    fn scalars<T>(&self, file: &[u8], as_t: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
        let Value::Array { kind, count, range } = self else { return None };
        let mut cursor = Cursor::new(&file[range.clone()]);
        (0..*count).map(|_| as_t(&read_scalar(*kind, &mut cursor).ok()?)).collect()
    }

    fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::Unsigned(value) => Some(value),
            Value::Signed(value) => u64::try_from(value).ok(),
            _ => None,
        }
    }

    fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::Float(value) => Some(value),
            Value::Unsigned(value) => Some(value as f64),
            Value::Signed(value) => Some(value as f64),
            _ => None,
        }
    }
}

impl ValueType {
    pub fn from_id(id: u32) -> Result<ValueType, String> {
        Ok(match id {
            0 => ValueType::U8,
            1 => ValueType::I8,
            2 => ValueType::U16,
            3 => ValueType::I16,
            4 => ValueType::U32,
            5 => ValueType::I32,
            6 => ValueType::F32,
            7 => ValueType::Bool,
            8 => ValueType::Text,
            9 => ValueType::Array,
            10 => ValueType::U64,
            11 => ValueType::I64,
            12 => ValueType::F64,
            _ => return Err(format!("metadata type {id} is unknown")),
        })
    }

    /// Fewest bytes of one value in a file.
    fn least_bytes(self) -> usize {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => 1,
            ValueType::U16 | ValueType::I16 => 2,
            ValueType::U32 | ValueType::I32 | ValueType::F32 => 4,
            ValueType::U64 | ValueType::I64 | ValueType::F64 | ValueType::Text => 8,
            ValueType::Array => 12,
        }
    }
}

impl<'a> FromMetadata<'a> for u64 {
    const WANTED: &'static str = "a whole number of 0 or more";

    fn from_metadata(value: &Value, _: &'a [u8]) -> Option<Self> {
        value.as_u64()
    }
}

impl<'a> FromMetadata<'a> for f64 {
    const WANTED: &'static str = "a number";

    fn from_metadata(value: &Value, _: &'a [u8]) -> Option<Self> {
        value.as_f64()
    }
}

impl<'a> FromMetadata<'a> for bool {
    const WANTED: &'static str = "true or false";

    fn from_metadata(value: &Value, _: &'a [u8]) -> Option<Self> {
        if let Value::Bool(value) = value { Some(*value) } else { None }
    }
}

impl<'a> FromMetadata<'a> for &'a str {
    const WANTED: &'static str = "a text";

    fn from_metadata(value: &Value, file: &'a [u8]) -> Option<Self> {
        let Value::Text(range) = value else { return None };
        std::str::from_utf8(&file[range.clone()]).ok()
    }
}

impl<'a> FromMetadata<'a> for Vec<u64> {
    const WANTED: &'static str = "an array of whole numbers of 0 or more";

    fn from_metadata(value: &Value, file: &'a [u8]) -> Option<Self> {
        value.scalars(file, Value::as_u64)
    }
}

impl<'a> FromMetadata<'a> for Vec<f64> {
    const WANTED: &'static str = "an array of numbers";

    fn from_metadata(value: &Value, file: &'a [u8]) -> Option<Self> {
        value.scalars(file, Value::as_f64)
    }
}

impl<'a> FromMetadata<'a> for Vec<&'a str> {
    const WANTED: &'static str = "an array of texts";

    fn from_metadata(value: &Value, file: &'a [u8]) -> Option<Self> {
        let Value::Array { kind: ValueType::Text, count, range } = value else { return None };
        let mut cursor = Cursor::new(&file[range.clone()]);
        (0..*count).map(|_| cursor.str().ok()).collect()
    }
}

fn read_array(cursor: &mut Cursor<'_>, depth: usize) -> Result<Value, String> {
    if depth == 0 {
        return Err(format!("arrays lie more than {MAX_ARRAY_DEPTH} deep in each other"));
    }
    let kind = ValueType::from_id(cursor.u32()?)?;
    let count = cursor.count(kind.least_bytes(), "array values")?;
    let start = cursor.position();
    match kind {
        ValueType::Array => (0..count).try_for_each(|_| read_array(cursor, depth - 1).map(drop))?,
        ValueType::Text => (0..count).try_for_each(|_| cursor.str().map(drop))?,
        _ => cursor.take(count * kind.least_bytes()).map(drop)?,
    }
    Ok(Value::Array { kind, count, range: start..cursor.position() })
}

fn read_scalar(kind: ValueType, cursor: &mut Cursor<'_>) -> Result<Value, String> {
    Ok(match kind {
        ValueType::U8 => Value::Unsigned(u8::from_le_bytes(cursor.array()?).into()),
        ValueType::I8 => Value::Signed(i8::from_le_bytes(cursor.array()?).into()),
        ValueType::U16 => Value::Unsigned(u16::from_le_bytes(cursor.array()?).into()),
        ValueType::I16 => Value::Signed(i16::from_le_bytes(cursor.array()?).into()),
        ValueType::U32 => Value::Unsigned(cursor.u32()?.into()),
        ValueType::I32 => Value::Signed(i32::from_le_bytes(cursor.array()?).into()),
        ValueType::F32 => Value::Float(f32::from_le_bytes(cursor.array()?).into()),
        ValueType::Bool => Value::Bool(cursor.array::<1>()? != [0]),
        ValueType::U64 => Value::Unsigned(cursor.u64()?),
        ValueType::I64 => Value::Signed(i64::from_le_bytes(cursor.array()?)),
        ValueType::F64 => Value::Float(f64::from_le_bytes(cursor.array()?)),
        ValueType::Text | ValueType::Array => {
            return Err(format!("{kind:?} is not a plain value"));
        }
    })
}
