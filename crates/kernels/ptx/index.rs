//! All PTX there is; written by tools/ptx.py.

/// Kernel file, variant, architecture, deflated text.
pub(super) const PTX: &[(&str, &str, &str, &[u8])] = &[
    ("copy_pages", "any", "80", include_bytes!("copy_pages.any.80.ptx.z")),
    ("copy_pages", "any", "90a", include_bytes!("copy_pages.any.90a.ptx.z")),
    ("fill_random", "any", "80", include_bytes!("fill_random.any.80.ptx.z")),
    ("fill_random", "any", "90a", include_bytes!("fill_random.any.90a.ptx.z")),
    ("gate", "f32", "80", include_bytes!("gate.f32.80.ptx.z")),
    ("gate", "f32", "90a", include_bytes!("gate.f32.90a.ptx.z")),
    ("gate", "bf16", "80", include_bytes!("gate.bf16.80.ptx.z")),
    ("gate", "bf16", "90a", include_bytes!("gate.bf16.90a.ptx.z")),
    ("gather_rows", "any", "80", include_bytes!("gather_rows.any.80.ptx.z")),
    ("gather_rows", "any", "90a", include_bytes!("gather_rows.any.90a.ptx.z")),
    ("rms_norm", "f32", "80", include_bytes!("rms_norm.f32.80.ptx.z")),
    ("rms_norm", "f32", "90a", include_bytes!("rms_norm.f32.90a.ptx.z")),
    ("rms_norm", "bf16", "80", include_bytes!("rms_norm.bf16.80.ptx.z")),
    ("rms_norm", "bf16", "90a", include_bytes!("rms_norm.bf16.90a.ptx.z")),
    ("rope_angles", "f32", "80", include_bytes!("rope_angles.f32.80.ptx.z")),
    ("rope_angles", "f32", "90a", include_bytes!("rope_angles.f32.90a.ptx.z")),
    ("sample", "f32", "80", include_bytes!("sample.f32.80.ptx.z")),
    ("sample", "f32", "90a", include_bytes!("sample.f32.90a.ptx.z")),
];
