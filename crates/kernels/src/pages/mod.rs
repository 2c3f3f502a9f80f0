//! Pages of keys and values: how their bytes are laid out, and the ops that write and copy them.

pub(crate) mod choose_slots;
pub(crate) mod commit;
pub(crate) mod copy_pages;
pub(crate) mod kv_layout;
pub(crate) mod move_pages;
pub(crate) mod page_layout;
pub(crate) mod paged_kv;
pub(crate) mod row_format;
pub(crate) mod slot_kv;
pub(crate) mod slot_layout;
pub(crate) mod slot_pages;
pub(crate) mod slot_rule;
pub(crate) mod slot_scorer;
