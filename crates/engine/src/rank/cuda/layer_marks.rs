//! When the layers of a step that waits for pages computed, by marks in the compute stream.

use std::cell::Cell;
use std::sync::Arc;

use terrace_device::cuda::{CudaDevice, CudaEvent};

use crate::error::Error;
use crate::rank::rank_trace::LayerTimes;

pub(super) struct LayerMarks {
    /// Of each layer: before it waits for its pages, and behind that.
    marks: Vec<[CudaEvent; 2]>,
    /// Whether the step that is under way has set them.
    are_set: Cell<bool>,
    times: Vec<LayerTimes>,
}

impl LayerMarks {
    pub fn new(device: &Arc<CudaDevice>, layers: usize) -> Result<Self, Error> {
        let mark = |_| -> Result<[CudaEvent; 2], Error> { Ok([device.event()?, device.event()?]) };
        let marks = (0..layers).map(mark).collect::<Result<_, _>>()?;
        Ok(LayerMarks { marks, are_set: Cell::new(false), times: Vec::new() })
    }

    /// A layer is about to wait for its pages.
    pub fn asks(&self, layer: usize) {
        self.marks[layer][0].record();
        self.are_set.set(true);
    }

    /// It has them.
    pub fn begins(&self, layer: usize) {
        self.marks[layer][1].record();
    }

    /// A step is over, from its begin to its end.
    pub fn read(&mut self, begin: &CudaEvent, end: &CudaEvent) -> Result<(), Error> {
        self.times.clear();
        if !self.are_set.replace(false) {
            return Ok(());
        }
        let us = |mark: &CudaEvent| -> Result<f64, Error> {
            Ok(f64::from(mark.ms_since(begin)?) * 1000.0)
        };
        for (layer, [asks, begins]) in self.marks.iter().enumerate() {
            let ended = self.marks.get(layer + 1).map_or(end, |[next, _]| next);
            self.times.push(LayerTimes {
                asked_us: us(asks)?,
                began_us: us(begins)?,
                ended_us: us(ended)?,
            });
        }
        Ok(())
    }

    /// Of the last step, if it waited for pages.
    pub fn times(&self) -> &[LayerTimes] {
        &self.times
    }
}
