//! Versions of the embedding tables: which one is served, and which are too old.
//!
//! Pages are known by the generation of the tables that their first tokens were computed with. It
//! rises with each full version of the tables, not with updates of single rows. Pages of an older
//! one stay usable, with what is appended to them, until it has been replaced for too long.

#[derive(Clone, Debug)]
pub(super) struct Generations {
    current: u32,
    /// Those before, and when each was replaced.
    replaced: Vec<(u32, u64)>,
    max_staleness_us: Option<u64>,
}

impl Generations {
    pub fn new(max_staleness_us: Option<u64>) -> Self {
        Generations { current: 0, replaced: Vec::new(), max_staleness_us }
    }

    pub fn current(&self) -> u32 {
        self.current
    }

    /// The tables are replaced.
    pub fn raise(&mut self, to: u32, now_us: u64) {
        assert!(self.current < to, "generation {to} after {}", self.current);
        self.replaced.push((self.current, now_us));
        self.current = to;
    }

    /// Whether pages of a generation may be used.
    pub fn is_usable(&self, generation: u32, now_us: u64) -> bool {
        if generation == self.current {
            return true;
        }
        let known = self.replaced.iter().find(|(number, _)| *number == generation);
        known.is_some_and(|(_, at)| {
            self.max_staleness_us.is_none_or(|most| now_us.saturating_sub(*at) <= most)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_generations_are_usable_until_they_are_too_old() {
        let mut unlimited = Generations::new(None);
        let mut limited = Generations::new(Some(10));
        for generations in [&mut unlimited, &mut limited] {
            generations.raise(1, 100);
            generations.raise(2, 150);
        }
        let usable = |generations: &Generations, now_us: u64| {
            [0, 1, 2, 3].map(|generation| generations.is_usable(generation, now_us))
        };
        assert_eq!(usable(&unlimited, 1 << 60), [true, true, true, false]);
        assert_eq!(usable(&limited, 105), [true, true, true, false]);
        assert_eq!(usable(&limited, 160), [false, true, true, false]);
        assert_eq!(usable(&limited, 161), [false, false, true, false]);
    }
}
