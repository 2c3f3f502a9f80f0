//! Keys are equal exactly when everything the bytes depend on is equal.

use terrace_cache::{KvGroup, PageKeys, PrefixSeed};
use terrace_device::DType;
use terrace_kernels::{ArithmeticClass, Compute, CpuLevel, KvLayout, PageLayout};

fn group(page_tokens: usize, dtype: DType) -> KvGroup {
    let layout =
        PageLayout { layers: 1, kv_heads: 1, page_tokens, key_dim: 1, value_dim: 1, dtype };
    KvGroup { layers: vec![0], layout: KvLayout::Dense(layout), window: None }
}

const MODEL: [u8; 32] = [7; 32];

fn class() -> ArithmeticClass {
    ArithmeticClass {
        kernel_revision: 1,
        ..ArithmeticClass::cpu(CpuLevel::Reference, Compute::F32)
    }
}

pub fn seed() -> PrefixSeed {
    PrefixSeed::new(&MODEL, &class())
}

/// Computed apart from this program, by what the module comments say.
#[test]
fn a_key_is_fixed_for_ever() {
    let mut keys = PageKeys::new(seed().root(&group(2, DType::Bf16), "salt"), 2).tell_apart(3);
    keys.extend(&[1, 2, 3, 4]);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let found: Vec<String> = keys.as_slice().iter().map(|key| hex(key.as_bytes())).collect();
    assert_eq!(
        found,
        [
            "ea61ab2af2f0dfa8966b7b36d71699f0f302e251626b8f8b1f91d7863536c608",
            "95ce485ceda81f9ba65d2790aa9ebbe9f632556c119a845abece47a897885da8"
        ]
    );
}

#[test]
fn roots_differ_in_model_arithmetic_format_group_and_salt() {
    let plain = group(16, DType::Bf16);
    let mut windowed = plain.clone();
    windowed.window = Some(128);
    let mut second = plain.clone();
    second.layers = vec![1];
    let seed = seed();
    let mut revised = class();
    revised.kernel_revision += 1;
    let roots = [
        seed.root(&plain, ""),
        seed.root(&plain, "salt"),
        seed.root(&group(8, DType::Bf16), ""),
        seed.root(&group(16, DType::F16), ""),
        seed.root(&windowed, ""),
        seed.root(&second, ""),
        PrefixSeed::new(&[8; 32], &class()).root(&plain, ""),
        PrefixSeed::new(&MODEL, &revised).root(&plain, ""),
    ];
    for (i, root) in roots.iter().enumerate() {
        assert!(!roots[..i].contains(root), "root {i} is not its own");
    }
    assert_eq!(seed.root(&plain, "salt"), roots[1], "the same again");
}

#[test]
fn a_key_stands_for_the_whole_prefix() {
    let root = seed().root(&group(2, DType::F32), "");
    let keys = |tokens: &[u32]| {
        let mut keys = PageKeys::new(root, 2);
        keys.extend(tokens);
        keys.as_slice().to_vec()
    };
    let whole = keys(&[1, 2, 3, 4, 5]);
    assert_eq!(whole.len(), 2, "a page that is not full has no key");
    assert_eq!(whole, keys(&[1, 2, 3, 4]));
    assert_eq!(whole[0], keys(&[1, 2])[0]);
    assert_ne!(whole[1], keys(&[9, 2, 3, 4])[1]);
    assert_ne!(whole[1], keys(&[3, 4])[0]);
}

#[test]
fn keys_made_in_parts_are_the_same() {
    let root = seed().root(&group(3, DType::F32), "");
    let tokens: Vec<u32> = (0..20).collect();
    let mut whole = PageKeys::new(root, 3);
    whole.extend(&tokens);
    let mut parts = PageKeys::new(root, 3);
    for end in [2, 3, 3, 11, 5, 20] {
        parts.extend(&tokens[..end]);
    }
    assert_eq!(whole.as_slice(), parts.as_slice());
}

#[test]
fn generated_tokens_have_other_keys_than_a_prompts() {
    let root = seed().root(&group(2, DType::F32), "");
    let keys = |generated_from: usize| {
        let mut keys = PageKeys::new(root, 2).tell_apart(generated_from);
        keys.extend(&[1, 2, 3, 4, 5, 6]);
        keys.as_slice().to_vec()
    };
    let (whole, continued) = (keys(6), keys(3));
    assert_eq!(whole, keys(usize::MAX), "a prompt's pages are as if nobody asked");
    assert_eq!(whole[0], continued[0], "the prompt's pages are shared");
    assert_ne!(whole[1], continued[1], "the page where the output starts is not");
    assert_ne!(whole[2], continued[2]);
    assert_eq!(continued, keys(3), "the sequence finds its own again");
    assert_ne!(continued[1], keys(2)[1]);
}
