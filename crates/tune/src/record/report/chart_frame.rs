//! Where things are in a chart: its axes, and the places of points between them.

use std::fmt::{self, Display, Formatter};

use super::axis::Axis;
use super::curve::{Point, is_drawable};

pub struct ChartFrame {
    steps: Axis,
    values: Axis,
}

const LEFT: f64 = 56.0;
const RIGHT: f64 = 404.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 200.0;

impl ChartFrame {
    /// Small enough that a phone shows the labels in a size to read.
    pub const SIZE: (f64, f64) = (420.0, 240.0);

    /// With room for all points that can be drawn.
    pub fn around(points: impl Iterator<Item = Point> + Clone, floor: Option<f64>) -> Self {
        let steps = points.clone().map(|(step, _)| step as u64);
        let steps = ends(steps, u64::cmp).unwrap_or((0, 1));
        let values = points.map(|(_, value)| value).filter(|value| is_drawable(*value));
        let values = ends(values.chain(floor), f64::total_cmp).unwrap_or((0.0, 1.0));
        let (steps, values) = (Axis::counted(steps.0, steps.1), Axis::rounded(values.0, values.1));
        ChartFrame { steps, values }
    }

    pub fn place(&self, (step, value): Point) -> Point {
        (self.x(step), self.y(value))
    }

    fn x(&self, step: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * self.steps.share(step)
    }

    fn y(&self, value: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * self.values.share(value)
    }
}

/// The least and the largest.
fn ends<T: Copy>(
    items: impl Iterator<Item = T> + Clone,
    order: impl Fn(&T, &T) -> std::cmp::Ordering,
) -> Option<(T, T)> {
    let least = items.clone().min_by(&order)?;
    Some((least, items.max_by(&order)?))
}

/// The axes with their labels.
impl Display for ChartFrame {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for tick in self.values.ticks() {
            let (y, label_x) = (self.y(tick.value), LEFT - 6.0);
            writeln!(f, r#"<path class="grid" d="M{LEFT} {y:.1}H{RIGHT}"/>"#)?;
            writeln!(
                f,
                r#"<text x="{label_x}" y="{:.1}" class="end">{}</text>"#,
                y + 4.0,
                tick.label
            )?;
        }
        for tick in self.steps.ticks() {
            let (x, label_y) = (self.x(tick.value), BOTTOM + 18.0);
            writeln!(f, r#"<path class="axis" d="M{x:.1} {BOTTOM}v4"/>"#)?;
            writeln!(f, r#"<text x="{x:.1}" y="{label_y}" class="middle">{}</text>"#, tick.label)?;
        }
        let (middle, below) = ((LEFT + RIGHT) / 2.0, BOTTOM + 36.0);
        writeln!(f, r#"<path class="axis" d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}"/>"#)?;
        writeln!(f, r#"<text x="{middle}" y="{below}" class="middle">step</text>"#)
    }
}
