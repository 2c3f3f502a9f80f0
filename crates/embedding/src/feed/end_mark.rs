//! Up to which time all that was published is applied.
//!
//! While updates come all the time a consumer is never at the end. So the ends of partitions are
//! remembered with the time at which they were seen: once it has come there, all that was published
//! before is applied.

use std::time::Instant;

/// A partition that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadPlace {
    pub topic: String,
    pub partition: i32,
    /// Up to which it is applied.
    pub position: Option<i64>,
    /// Behind its last message.
    pub end: Option<i64>,
}

#[derive(Default)]
pub struct EndMark {
    seen: Option<SeenEnds>,
}

struct SeenEnds {
    at: Instant,
    ends: Vec<(String, i32, i64)>,
}

impl ReadPlace {
    /// Messages that are published and not applied, where both are known.
    pub fn lag(&self) -> Option<u64> {
        Some(self.end?.saturating_sub(self.position?).max(0) as u64)
    }

    fn has_come_to(&self, (topic, partition, end): &(String, i32, i64)) -> bool {
        (&self.topic, self.partition) == (topic, *partition) && self.position >= Some(*end)
    }
}

impl EndMark {
    /// With all partitions that are read; `None` where nothing is known that was not before.
    pub fn applied_until(&mut self, places: &[ReadPlace], now: Instant) -> Option<Instant> {
        if places.iter().any(|place| place.lag().is_none()) {
            self.clear();
            return None;
        }
        let is_applied = |seen: &SeenEnds| {
            seen.ends.iter().all(|end| places.iter().any(|place| place.has_come_to(end)))
        };
        let before = self.seen.take_if(|seen| is_applied(seen)).map(|seen| seen.at);
        let end = |place: &ReadPlace| Some((place.topic.clone(), place.partition, place.end?));
        let ends = SeenEnds { at: now, ends: places.iter().filter_map(end).collect() };
        if is_applied(&ends) {
            self.clear();
            return Some(now);
        }
        self.seen.get_or_insert(ends);
        before
    }

    /// Partitions have gone: what was seen of them says nothing any more.
    pub fn clear(&mut self) {
        self.seen = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn place(partition: i32, position: Option<i64>, end: Option<i64>) -> ReadPlace {
        ReadPlace { topic: "t".to_owned(), partition, position, end }
    }

    #[test]
    fn what_was_published_before_a_time_is_known_to_be_applied() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut mark = EndMark::default();
        let mut check = |at, positions: [i64; 2], ends: [i64; 2], want: Option<u64>| {
            let places = [0, 1].map(|it| place(it as i32, Some(positions[it]), Some(ends[it])));
            assert_eq!(mark.applied_until(&places, after(at)), want.map(after), "{at}");
        };
        check(1, [0, 5], [9, 5], None);
        check(2, [8, 5], [19, 5], None);
        check(3, [9, 5], [29, 5], Some(1));
        // Those of the third second are marked.
        check(4, [28, 5], [39, 6], None);
        check(5, [29, 5], [39, 6], Some(3));
        check(6, [39, 6], [39, 6], Some(6));
        check(7, [39, 6], [39, 6], Some(7));
        check(8, [39, 6], [39, 7], None);
        check(9, [45, 7], [45, 7], Some(9));
    }

    #[test]
    fn partitions_of_which_something_is_not_known_say_nothing() {
        let now = Instant::now();
        let mut mark = EndMark::default();
        assert_eq!(mark.applied_until(&[place(0, None, Some(3))], now), None);
        assert_eq!(mark.applied_until(&[place(0, Some(3), None)], now), None);
        assert_eq!(mark.applied_until(&[place(0, Some(3), Some(5))], now), None);
        assert_eq!(mark.applied_until(&[], now), Some(now), "nothing is read");
        assert_eq!(mark.applied_until(&[place(1, Some(3), Some(3))], now), Some(now));
    }
}
