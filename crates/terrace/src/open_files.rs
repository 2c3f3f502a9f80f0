//! How many files and connections the process may have open.
//!
//! Systems often start a process with 1,024 and let it take many more; each connection is one.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Takes as many as the system allows.
pub fn allow_many() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it there are fewer connections, which is no reason not to start.
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        eprintln!("the limit of open files stays as it is: {error}");
    }
}
