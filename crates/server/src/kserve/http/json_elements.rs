//! The elements of a tensor that stand in JSON, read straight into their type.
//!
//! They may be one flat list, or lists in lists as the shape has them.

use std::fmt;

use bytes::Bytes;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, SeqAccess, Visitor};

use crate::kserve::datatype::Datatype;
use crate::kserve::tensor_data::TensorData;

/// Reads at most `most` elements: what is more is refused before it takes memory.
pub struct JsonElements {
    pub datatype: Datatype,
    pub most: usize,
}

/// More are taken as they come.
const RESERVED_MOST: usize = 1 << 16;

impl<'de> DeserializeSeed<'de> for JsonElements {
    type Value = TensorData;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<TensorData, D::Error> {
        let most = self.most;
        macro_rules! read {
            ($kind:ident) => {{
                let mut elements = Vec::with_capacity(most.min(RESERVED_MOST));
                deserializer.deserialize_seq(List { elements: &mut elements, most })?;
                Ok(TensorData::$kind(elements))
            }};
        }
        match self.datatype {
            Datatype::Bool => read!(Bool),
            Datatype::Uint8 => read!(Uint8),
            Datatype::Uint16 => read!(Uint16),
            Datatype::Uint32 => read!(Uint32),
            Datatype::Uint64 => read!(Uint64),
            Datatype::Int8 => read!(Int8),
            Datatype::Int16 => read!(Int16),
            Datatype::Int32 => read!(Int32),
            Datatype::Int64 => read!(Int64),
            Datatype::Fp32 => read!(Fp32),
            Datatype::Fp64 => read!(Fp64),
            Datatype::Bytes => read!(Bytes),
            Datatype::Fp16 | Datatype::Bf16 => {
                let name = self.datatype.name();
                Err(Error::custom(format!("{name} has no form in JSON; send it as binary data")))
            }
        }
    }
}

/// What JSON may have for an element. `None` where it does not fit.
trait JsonElement: Sized {
    /// As complaints call it.
    const WANTED: &'static str;

    fn of_i64(number: i64) -> Option<Self>;
    fn of_u64(number: u64) -> Option<Self>;

    fn of_f64(_: f64) -> Option<Self> {
        None
    }

    fn of_bool(_: bool) -> Option<Self> {
        None
    }

    fn of_text(_: &str) -> Option<Self> {
        None
    }
}

macro_rules! whole_numbers {
    ($($type:ty => $wanted:literal),*) => {$(
        impl JsonElement for $type {
            const WANTED: &'static str = $wanted;

            fn of_i64(number: i64) -> Option<Self> {
                number.try_into().ok()
            }

            fn of_u64(number: u64) -> Option<Self> {
                number.try_into().ok()
            }
        }
    )*};
}

whole_numbers!(
    u8 => "a whole number from 0 to 255",
    u16 => "a whole number from 0 to 65535",
    u32 => "a whole number from 0 to 4294967295",
    u64 => "a whole number from 0 to 18446744073709551615",
    i8 => "a whole number from -128 to 127",
    i16 => "a whole number from -32768 to 32767",
    i32 => "a whole number from -2147483648 to 2147483647",
    i64 => "a whole number from -9223372036854775808 to 9223372036854775807"
);

impl JsonElement for f32 {
    const WANTED: &'static str = "a number of at most 3.4e38";

    fn of_i64(number: i64) -> Option<Self> {
        Some(number as f32)
    }

    fn of_u64(number: u64) -> Option<Self> {
        Some(number as f32)
    }

    fn of_f64(number: f64) -> Option<Self> {
        Some(number as f32).filter(|number| number.is_finite())
    }
}

impl JsonElement for f64 {
    const WANTED: &'static str = "a number";

    fn of_i64(number: i64) -> Option<Self> {
        Some(number as f64)
    }

    fn of_u64(number: u64) -> Option<Self> {
        Some(number as f64)
    }

    fn of_f64(number: f64) -> Option<Self> {
        Some(number)
    }
}

impl JsonElement for bool {
    const WANTED: &'static str = "true, false, 1 or 0";

    fn of_i64(_: i64) -> Option<Self> {
        None
    }

    fn of_u64(number: u64) -> Option<Self> {
        (number <= 1).then_some(number == 1)
    }

    fn of_bool(it: bool) -> Option<Self> {
        Some(it)
    }
}

impl JsonElement for Bytes {
    const WANTED: &'static str = "a text";

    fn of_i64(_: i64) -> Option<Self> {
        None
    }

    fn of_u64(_: u64) -> Option<Self> {
        None
    }

    fn of_text(text: &str) -> Option<Self> {
        Some(Bytes::copy_from_slice(text.as_bytes()))
    }
}

/// A list at any depth, whose elements go behind those before it.
struct List<'a, T> {
    elements: &'a mut Vec<T>,
    most: usize,
}

impl<'de, T: JsonElement> Visitor<'de> for List<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let List { elements, most } = self;
        while list.next_element_seed(Item(List { elements, most }))?.is_some() {}
        Ok(())
    }
}

/// An element, or a list of them.
struct Item<'a, T>(List<'a, T>);

impl<'de, T: JsonElement> DeserializeSeed<'de> for Item<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<T: JsonElement> Item<'_, T> {
    fn push<E: Error>(self, element: Option<T>, given: impl fmt::Display) -> Result<(), E> {
        let List { elements, most } = self.0;
        let (index, wanted) = (elements.len(), T::WANTED);
        match element {
            Some(_) if index == most => {
                Err(E::custom(format!("there are more than the {most} elements of the shape")))
            }
            Some(element) => {
                elements.push(element);
                Ok(())
            }
            None => Err(E::custom(format!("element {index} is {given}: it must be {wanted}"))),
        }
    }
}

impl<'de, T: JsonElement> Visitor<'de> for Item<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, or a list of such", T::WANTED)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        self.0.visit_seq(list)
    }

    fn visit_bool<E: Error>(self, it: bool) -> Result<(), E> {
        self.push(T::of_bool(it), it)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.push(T::of_i64(number), number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.push(T::of_u64(number), number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.push(T::of_f64(number), number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.push(T::of_text(text), "a text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(datatype: Datatype, json: &str, most: usize) -> Result<TensorData, String> {
        let mut reader = serde_json::Deserializer::from_str(json);
        let elements = JsonElements { datatype, most }.deserialize(&mut reader);
        elements.map_err(|error| error.to_string())
    }

    #[test]
    fn lists_in_lists_are_one_list() {
        let numbers = TensorData::Int32(vec![1, -2, 3, 4]);
        for json in ["[1,-2,3,4]", "[[1,-2],[3,4]]", "[[[1],[-2]],[[3],[4]]]", "[1,[-2,[3]],4]"] {
            assert_eq!(read(Datatype::Int32, json, 4), Ok(numbers.clone()), "{json}");
        }
        assert_eq!(read(Datatype::Int32, "[[],[]]", 0), Ok(TensorData::Int32(Vec::new())));
    }

    #[test]
    fn each_type_takes_what_fits_it() {
        for (datatype, json, want) in [
            (Datatype::Bool, "[true,0,1]", TensorData::Bool(vec![true, false, true])),
            (Datatype::Uint8, "[0,255]", TensorData::Uint8(vec![0, 255])),
            (Datatype::Int8, "[-128,127]", TensorData::Int8(vec![-128, 127])),
            (Datatype::Uint64, "[18446744073709551615,0]", TensorData::Uint64(vec![u64::MAX, 0])),
            (Datatype::Int64, "[-9223372036854775808,7]", TensorData::Int64(vec![i64::MIN, 7])),
            (Datatype::Fp32, "[1,-2,0.5,1e-50]", TensorData::Fp32(vec![1.0, -2.0, 0.5, 0.0])),
            (Datatype::Fp64, "[1,-2,1e300]", TensorData::Fp64(vec![1.0, -2.0, 1e300])),
            (Datatype::Bytes, r#"["a","\u00e9"]"#, TensorData::Bytes(vec!["a".into(), "é".into()])),
        ] {
            assert_eq!(read(datatype, json, 9), Ok(want), "{json}");
        }
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (datatype, json, part) in [
            (Datatype::Uint8, "[1,256]", "element 1 is 256: it must be a whole number from 0 to"),
            (Datatype::Uint64, "[-1]", "element 0 is -1"),
            (Datatype::Int64, "[9223372036854775808]", "element 0 is 9223372036854775808"),
            (Datatype::Int64, "[1.5]", "element 0 is 1.5"),
            (Datatype::Fp32, "[1e39]", "it must be a number of at most 3.4e38"),
            (Datatype::Fp32, "[null]", "null"),
            (Datatype::Fp32, r#"["a"]"#, "element 0 is a text: it must be a number"),
            (Datatype::Bool, "[2]", "element 0 is 2: it must be true, false, 1 or 0"),
            (Datatype::Bytes, "[1]", "element 0 is 1: it must be a text"),
            (Datatype::Int32, "[{}]", "invalid type: map"),
            (Datatype::Int32, "{}", "a list"),
            (Datatype::Int32, "7", "a list"),
            (Datatype::Int32, "[1,2,3,4,5,6,7,8,9,10]", "more than the 9 elements of the shape"),
            (Datatype::Fp16, "[1]", "FP16 has no form in JSON; send it as binary data"),
        ] {
            let error = read(datatype, json, 9).expect_err(json);
            assert!(error.contains(part), "{json}: {error}");
        }
        assert!(read(Datatype::Int8, &"[".repeat(100_000), 9).is_err());
    }
}
