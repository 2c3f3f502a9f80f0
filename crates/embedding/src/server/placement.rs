//! Where each table is kept when the server decides: on the device, in memory, or on disk.
//!
//! Tables whose bytes are asked for most often come first, into the fastest place that has room
//! for the whole of them. What is on the device or in memory is there beside the copy on disk.

use serde::Serialize;

/// The fastest place that has all rows of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    Device,
    Ram,
    /// Hot rows are cached above it.
    Disk,
}

/// What decides about a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedTable {
    /// Of its rows.
    pub bytes: u64,
    /// Keys that a request has in it, as far as known: its share of the traffic.
    pub keys: u64,
}

/// Bytes that tables may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceBudgets {
    pub device: u64,
    pub ram: u64,
}

impl PlaceBudgets {
    /// What is left of them beside a table that is placed already.
    pub fn beside(self, place: Place, bytes: u64) -> Self {
        let PlaceBudgets { device, ram } = self;
        match place {
            Place::Device => {
                PlaceBudgets { device: device.saturating_sub(device_bytes(bytes)), ram }
            }
            Place::Ram => PlaceBudgets { device, ram: ram.saturating_sub(ram_bytes(bytes)) },
            Place::Disk => self,
        }
    }
}

/// Of each table, in their order. Indices and free slots are counted in.
pub fn place(tables: &[PlacedTable], budgets: PlaceBudgets) -> Vec<Place> {
    let mut order: Vec<usize> = (0..tables.len()).collect();
    // Keys per byte, without division; of equals the first.
    order.sort_by(|a, b| {
        let (a, b) = (tables[*a], tables[*b]);
        let density = |x: PlacedTable, y: PlacedTable| u128::from(x.keys) * u128::from(y.bytes);
        density(b, a).cmp(&density(a, b))
    });
    let mut left = budgets;
    let mut places = vec![Place::Disk; tables.len()];
    for index in order {
        let bytes = tables[index].bytes;
        let fits = [
            (&mut left.device, Place::Device, device_bytes(bytes)),
            (&mut left.ram, Place::Ram, ram_bytes(bytes)),
        ];
        for (left, place, bytes) in fits {
            if bytes <= *left {
                *left -= bytes;
                places[index] = place;
                break;
            }
        }
    }
    places
}

/// That a resident hot cache takes: nine tenths of its slots are used, and a set of 12 has 128
/// bytes beside its rows.
fn device_bytes(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 5)
}

/// At most 1.3 times the rows.
fn ram_bytes(bytes: u64) -> u64 {
    bytes.saturating_add(bytes / 10 * 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn tables_go_to_the_fastest_place_that_has_room() {
        use Place::{Device, Disk, Ram};
        let sizes = [10, 100, 1000];
        let check = |device: u64, ram: u64, want: [Place; 3]| {
            let tables = sizes.map(|mib| PlacedTable { bytes: mib * MIB, keys: 1 });
            let budgets = PlaceBudgets { device: device * MIB, ram: ram * MIB };
            assert_eq!(place(&tables, budgets), want, "{device} {ram}");
        };
        check(0, 0, [Disk, Disk, Disk]);
        check(15, 150, [Device, Ram, Disk]);
        check(2_000, 0, [Device, Device, Device]);
        check(150, 1_500, [Device, Device, Ram]);
        check(0, 1_400, [Ram, Ram, Disk]);
        check(11, 131, [Ram, Disk, Disk]);
        check(12, 129, [Device, Disk, Disk]);
        check(13, 1_431, [Device, Ram, Ram]);
        check(120, 143, [Device, Ram, Disk]);
    }

    #[test]
    fn what_others_take_is_not_given_twice() {
        let all = PlaceBudgets { device: 130 * MIB, ram: 140 * MIB };
        let beside = all.beside(Place::Device, 100 * MIB).beside(Place::Ram, 100 * MIB);
        assert_eq!(beside, PlaceBudgets { device: 10 * MIB, ram: 10 * MIB });
        assert_eq!(beside.beside(Place::Disk, 100 * MIB), beside);
        let none = PlaceBudgets { device: 0, ram: 10 * MIB };
        assert_eq!(beside.beside(Place::Device, 100 * MIB), none);
        let tables = [PlacedTable { bytes: 100 * MIB, keys: 1 }];
        assert_eq!(
            (place(&tables, all), place(&tables, beside)),
            ([Place::Device].into(), [Place::Disk].into())
        );
    }

    #[test]
    fn what_is_asked_for_most_comes_first() {
        let check = |keys: [u64; 2], want: [Place; 2]| {
            let tables = keys.map(|keys| PlacedTable { bytes: MIB, keys });
            let budgets = PlaceBudgets { device: MIB * 5 / 4, ram: 2 * MIB };
            assert_eq!(place(&tables, budgets), want, "{keys:?}");
        };
        check([1, 2], [Place::Ram, Place::Device]);
        check([2, 1], [Place::Device, Place::Ram]);
        check([1, 1], [Place::Device, Place::Ram]);
        check([0, 0], [Place::Device, Place::Ram]);
    }

    #[test]
    fn sizes_that_overflow_are_on_disk() {
        let tables = [PlacedTable { bytes: u64::MAX, keys: u64::MAX }];
        let all = PlaceBudgets { device: u64::MAX - 1, ram: u64::MAX - 1 };
        assert_eq!(place(&tables, all), [Place::Disk]);
    }
}
