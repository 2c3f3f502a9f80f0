//! How long work takes on a device, apart from the host's part of it.

use std::time::Instant;

use anyhow::Result;
use terrace_device::Device;
use terrace_kernels::Ops;

/// Milliseconds of one op.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    pub best_ms: f64,
    pub median_ms: f64,
}

/// Of a run, so that clocks and launches do not show.
const RUN_MS: f64 = 40.0;

impl Timing {
    /// `work` does the op `ops_each` times, the same each time it is called.
    pub fn measure(
        ops: &Ops,
        repeat: usize,
        ops_each: usize,
        mut work: impl FnMut(),
    ) -> Result<Self> {
        match ops.device() {
            Device::Cpu => Self::of_runs(repeat, ops_each, |times| {
                let start = Instant::now();
                (0..times).for_each(|_| work());
                Ok(start.elapsed().as_secs_f64() * 1e3)
            }),
            Device::Cuda(device) => {
                work();
                let graph = device.capture(&mut work)?;
                let [start, end] = [device.event()?, device.event()?];
                Self::of_runs(repeat, ops_each, |times| {
                    start.record();
                    (0..times).for_each(|_| graph.launch());
                    end.record();
                    end.wait()?;
                    Ok(f64::from(end.ms_since(&start)?))
                })
            }
        }
    }

    /// `run` takes how often to do it and gives the milliseconds of all.
    fn of_runs(
        repeat: usize,
        ops_each: usize,
        mut run: impl FnMut(usize) -> Result<f64>,
    ) -> Result<Self> {
        run(1)?;
        let times = (RUN_MS / run(1)?).ceil().clamp(1.0, 1000.0) as usize;
        let one = |ms: f64| ms / (times * ops_each) as f64;
        let mut all = (0..repeat).map(|_| run(times).map(one)).collect::<Result<Vec<_>>>()?;
        all.sort_by(f64::total_cmp);
        Ok(Timing { best_ms: all[0], median_ms: all[all.len() / 2] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_and_the_middle_run_count_for_one_op() {
        // Two uncounted runs; then five of 4 calls with 2 ops each.
        let mut given = [7.0, 10.0, 48.0, 40.0, 80.0, 44.0, 41.0].into_iter();
        let timing = Timing::of_runs(5, 2, |_| Ok(given.next().expect("seven runs")));
        assert_eq!(timing.expect("it runs"), Timing { best_ms: 5.0, median_ms: 5.5 });
    }
}
