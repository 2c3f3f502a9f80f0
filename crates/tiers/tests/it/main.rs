//! Tiers of page records, against real disks and real servers.

mod disk;
mod disk_faults;
mod disk_killed;
mod guarded;
mod handle_faults;
mod handles;
mod handles_killed;
mod pages;
mod redis_cluster;
mod redis_single;
