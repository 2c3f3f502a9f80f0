//! The bytes behind the pages.

use terrace_cache::KvBuffer;
use terrace_device::{DType, Device, Error};
use terrace_kernels::PageLayout;

fn layout(page_tokens: usize) -> PageLayout {
    PageLayout { layers: 2, kv_heads: 3, page_tokens, key_dim: 8, value_dim: 4, dtype: DType::Bf16 }
}

#[test]
fn a_buffer_is_pages_of_bytes() {
    let mut buffer = KvBuffer::new(&Device::Cpu, layout(5).page_bytes(), 7).unwrap();
    assert_eq!(buffer.pages(), 7);
    let pages = buffer.pages_mut();
    assert_eq!(pages.dtype(), DType::U8);
    assert_eq!(pages.dims(), [7, 2 * 3 * 5 * (8 + 4) * 2]);
}

#[test]
fn too_many_pages_are_refused_with_the_size() {
    match KvBuffer::new(&Device::Cpu, layout(16).page_bytes(), usize::MAX / 2) {
        Err(Error::OutOfMemory { bytes, what }) => {
            assert_eq!((bytes, what), (usize::MAX, "kv pages"));
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("more bytes than there are addresses"),
    }
}
