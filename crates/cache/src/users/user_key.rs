//! Whose keys and values they are.

use std::fmt;
use std::sync::Arc;

/// Users of different tenants never meet, whatever they are called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserKey {
    pub tenant: Arc<str>,
    pub user: Arc<str>,
}

impl UserKey {
    pub fn new(tenant: &str, user: &str) -> Self {
        UserKey { tenant: tenant.into(), user: user.into() }
    }
}

impl fmt::Display for UserKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.tenant {
            "" => write!(f, "user {:?}", self.user),
            tenant => write!(f, "user {:?} of tenant {tenant:?}", self.user),
        }
    }
}
