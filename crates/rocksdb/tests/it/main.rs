//! Databases of the real library, RocksDB 7 or newer. `tools/setup.sh tests` installs it; without
//! it the tests fail and say so.

mod databases;
mod families;
mod folders;
mod histories;
mod iterators;
mod libraries;
mod lookups;
mod sst_files;
mod writes;
