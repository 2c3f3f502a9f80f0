// Written by tools/ptx.py: (kernel file, variant, architecture, deflated PTX).
pub(crate) const PTX: &[(&str, &str, &str, &[u8])] = &[
];
