//! The library's handle of a family, and whether the family was dropped from its database.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::objects::FamilyObject;
use crate::owned_object::OwnedObject;

pub struct FamilyHandle {
    pub object: OwnedObject<FamilyObject>,
    is_dropped: AtomicBool,
}

impl FamilyHandle {
    pub fn new(object: OwnedObject<FamilyObject>) -> Self {
        FamilyHandle { object, is_dropped: AtomicBool::new(false) }
    }

    /// Valid as long as `self` is.
    pub fn as_ptr(&self) -> *mut FamilyObject {
        self.object.as_ptr()
    }

    /// Said once the family is gone from the database.
    pub fn set_dropped(&self) {
        self.is_dropped.store(true, Ordering::Release);
    }

    pub fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::Acquire)
    }
}
