//! Elements to bytes and back, and bytes that lie.

use super::*;

fn all() -> Vec<TensorData> {
    vec![
        TensorData::Bool(vec![true, false, true]),
        TensorData::Uint8(vec![0, 7, u8::MAX]),
        TensorData::Uint16(vec![0, 7, u16::MAX]),
        TensorData::Uint32(vec![0, 7, u32::MAX]),
        TensorData::Uint64(vec![0, 7, u64::MAX]),
        TensorData::Int8(vec![i8::MIN, -1, i8::MAX]),
        TensorData::Int16(vec![i16::MIN, -1, i16::MAX]),
        TensorData::Int32(vec![i32::MIN, -1, i32::MAX]),
        TensorData::Int64(vec![i64::MIN, -1, i64::MAX]),
        TensorData::Fp16(vec![0x3c00, 0x7c00, 1]),
        TensorData::Bf16(vec![0x3f80, 0x7f80, 1]),
        TensorData::Fp32(vec![0.5, f32::MIN, f32::INFINITY]),
        TensorData::Fp64(vec![0.5, f64::MIN, f64::INFINITY]),
        TensorData::Bytes(vec!["".into(), "hé".into(), Bytes::from_static(&[0, 255])]),
    ]
}

fn raw_of(data: &TensorData) -> Bytes {
    let mut raw = vec![9];
    data.write_raw(&mut raw);
    assert_eq!(raw.len(), 1 + data.raw_len());
    Bytes::from(raw).slice(1..)
}

#[track_caller]
fn check_refused(datatype: Datatype, raw: &[u8], elements: usize, want: &str) {
    let error = TensorData::from_raw(datatype, &Bytes::copy_from_slice(raw), elements);
    let error = error.expect_err("these bytes are wrong");
    assert!(error.contains(want), "{error}");
}

#[test]
fn every_type_comes_back() {
    for data in all() {
        let raw = raw_of(&data);
        assert_eq!(TensorData::from_raw(data.datatype(), &raw, data.len()), Ok(data));
    }
}

#[test]
fn empty_tensors_have_no_bytes() {
    for datatype in Datatype::ALL {
        let empty = TensorData::from_raw(datatype, &Bytes::new(), 0).expect("nothing is wrong");
        assert_eq!((empty.datatype(), empty.len(), empty.raw_len()), (datatype, 0, 0));
        assert!(empty.is_empty());
    }
}

#[test]
fn other_lengths_are_refused_with_the_numbers() {
    for data in all() {
        let (raw, elements) = (raw_of(&data), data.len());
        let longer = [&raw[..], &[0]].concat();
        for wrong in [&raw[..raw.len() - 1], &longer] {
            let wrong = Bytes::copy_from_slice(wrong);
            assert!(TensorData::from_raw(data.datatype(), &wrong, elements).is_err(), "{data:?}");
        }
        for wrong in [elements - 1, elements + 1, usize::MAX] {
            assert!(TensorData::from_raw(data.datatype(), &raw, wrong).is_err(), "{data:?}");
        }
    }
    let want = "its data has 7 bytes, and 2 elements of FP32 have 4 each";
    check_refused(Datatype::Fp32, &[0; 7], 2, want);
}

#[test]
fn a_bool_is_zero_or_one() {
    check_refused(Datatype::Bool, &[1, 0, 2], 3, "element 2 of its data is 2");
}

#[test]
fn texts_that_lie_about_their_length_are_refused() {
    let check = |raw: &[u8], elements, want: &str| {
        check_refused(Datatype::Bytes, raw, elements, want);
    };
    check(&[5, 0, 0, 0, b'a'], 1, "says that it has 5 bytes, and 1 are left");
    check(&[255, 255, 255, 255], 1, "says that it has 4294967295 bytes, and 0 are left");
    check(&[1, 0, 0, 0, b'a', 0, 0, 0], 2, "ends at byte 5, where the length of element 1");
    check(&[0, 0, 0, 0, 7], 1, "1 bytes of its data are left after 1 BYTES");
    check(&[0; 8], usize::MAX, "too few for");
}
