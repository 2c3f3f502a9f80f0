//! Tensors that do not live at the same time share a slot of memory.

use super::place::{Memory, Place};
use super::planned_step::PlannedStep;

/// Gives every memory a slot, from before its first write until after its last use; the pooled
/// ones may be written before the first step. Gives the slots' sizes.
pub(super) fn assign_slots(
    sizes: &[usize],
    pooled: &mut [Place],
    steps: &mut [PlannedStep],
) -> Vec<usize> {
    let mut last_uses = vec![0; sizes.len()];
    for (index, step) in steps.iter().enumerate() {
        for memory in step.reads().iter().chain(step.writes()).filter_map(memory) {
            last_uses[memory] = index;
        }
    }
    let mut slots =
        Slots { sizes: Vec::new(), free: Vec::new(), of_memory: vec![None; sizes.len()] };
    for place in pooled.iter_mut() {
        let slot = memory(place).map(|memory| slots.take(memory, sizes[memory]));
        place.memory = slot.map_or(place.memory, Memory::Slot);
    }
    for (index, step) in steps.iter_mut().enumerate() {
        let used: Vec<usize> =
            step.reads().iter().chain(step.writes()).filter_map(memory).collect();
        for place in step.places_mut() {
            let slot = memory(place).map(|memory| slots.take(memory, sizes[memory]));
            place.memory = slot.map_or(place.memory, Memory::Slot);
        }
        for memory in used {
            if last_uses[memory] == index {
                slots.release(memory);
            }
        }
    }
    slots.sizes
}

fn memory(place: &Place) -> Option<usize> {
    match place.memory {
        Memory::Slot(memory) => Some(memory),
        Memory::Output => None,
    }
}

struct Slots {
    sizes: Vec<usize>,
    free: Vec<usize>,
    of_memory: Vec<Option<usize>>,
}

impl Slots {
    /// The slot of a memory, which gets one that is free if it has none: the smallest that is
    /// large enough, or the largest, which then grows.
    fn take(&mut self, memory: usize, size: usize) -> usize {
        if let Some(slot) = self.of_memory[memory] {
            return slot;
        }
        let fitness = |slot: usize| {
            let room = self.sizes[slot];
            (room < size, if room < size { usize::MAX - room } else { room })
        };
        let best = (0..self.free.len()).min_by_key(|at| fitness(self.free[*at]));
        let slot = match best {
            Some(at) => self.free.swap_remove(at),
            None => {
                self.sizes.push(0);
                self.sizes.len() - 1
            }
        };
        self.sizes[slot] = self.sizes[slot].max(size);
        self.of_memory[memory] = Some(slot);
        slot
    }

    fn release(&mut self, memory: usize) {
        self.free.extend(self.of_memory[memory].take());
    }
}
