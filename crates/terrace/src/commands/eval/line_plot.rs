//! Lines over an axis from 0% to 100%, drawn as SVG.

use std::fmt::{self, Write};

pub struct LinePlot {
    pub title: String,
    /// What stands on the vertical axis.
    pub unit: &'static str,
    /// Drawn across the whole width, dashed.
    pub level: (String, f64),
    pub lines: Vec<Line>,
    /// The lower and upper end of the vertical axis; values beyond are drawn at its ends.
    pub range: (f64, f64),
}

pub struct Line {
    pub name: String,
    /// From the left to the right: a share from 0 to 1, and a value.
    pub points: Vec<(f64, f64)>,
}

const LEFT: f64 = 64.0;
const TOP: f64 = 40.0;
/// Right of the plot stands the legend.
const PLOT_WIDTH: f64 = 400.0;
const PLOT_HEIGHT: f64 = 300.0;
/// Okabe and Ito's colours, which most people can tell apart.
const COLOURS: [&str; 7] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"];
/// Lines of the same colour differ in their dashes.
const DASHES: [&str; 3] = ["none", "2 3", "8 3"];
const GRID: usize = 5;

impl LinePlot {
    /// As wide as the shares go, with a little space.
    fn right_end(&self) -> f64 {
        let points = self.lines.iter().flat_map(|line| &line.points);
        let largest = points.map(|(share, _)| *share).fold(0.1, f64::max);
        (largest * 1.1).min(1.0)
    }

    fn x(&self, share: f64) -> f64 {
        LEFT + PLOT_WIDTH * share / self.right_end()
    }

    fn y(&self, value: f64) -> f64 {
        let (low, high) = self.range;
        let height = ((value - low) / (high - low)).clamp(0.0, 1.0);
        TOP + PLOT_HEIGHT * (1.0 - height)
    }

    fn draw_axes(&self, out: &mut impl Write) -> fmt::Result {
        let (right, bottom) = (LEFT + PLOT_WIDTH, TOP + PLOT_HEIGHT);
        let (low, high) = self.range;
        for step in 0..=GRID {
            let value = low + (high - low) * step as f64 / GRID as f64;
            let (y, label_x) = (self.y(value), LEFT - 8.0);
            let digits = if high - low < 5.0 { 2 } else { 1 };
            write!(out, r##"<path d="M{LEFT} {y:.1}H{right}" stroke="#ddd"/>"##)?;
            write!(out, r##"<text x="{label_x}" y="{:.1}" text-anchor="end">"##, y + 4.0)?;
            writeln!(out, "{value:.digits$}</text>")?;
        }
        let mut shares: Vec<f64> =
            self.lines.iter().flat_map(|line| &line.points).map(|(share, _)| *share).collect();
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        for share in shares {
            let (x, y) = (self.x(share), bottom + 18.0);
            let percent = (share * 1000.0).round() / 10.0;
            write!(out, r##"<path d="M{x:.1} {bottom}v4" stroke="#333"/>"##)?;
            writeln!(out, r##"<text x="{x:.1}" y="{y}" text-anchor="middle">{percent}%</text>"##)?;
        }
        let (middle, below) = (LEFT + PLOT_WIDTH / 2.0, bottom + 38.0);
        writeln!(
            out,
            r##"<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#333"/>
<text x="{middle}" y="{below}" text-anchor="middle">slots, as a share of the text's tokens</text>
<text transform="translate(16 {}) rotate(-90)" text-anchor="middle">{}</text>
<text x="{LEFT}" y="22" font-size="15">{}</text>"##,
            TOP + PLOT_HEIGHT / 2.0,
            self.unit,
            escaped(&self.title),
        )
    }

    fn draw_lines(&self, out: &mut impl Write) -> fmt::Result {
        let right = LEFT + PLOT_WIDTH;
        let (name, level) = &self.level;
        let y = self.y(*level);
        let dense = Stroke { colour: "#333", dash: "6 4" };
        writeln!(out, r##"<path d="M{LEFT} {y:.1}H{right}" {dense}/>"##)?;
        legend(out, 0, name, &dense)?;
        for (index, line) in self.lines.iter().enumerate() {
            let stroke = Stroke {
                colour: COLOURS[index % COLOURS.len()],
                dash: DASHES[index / COLOURS.len() % DASHES.len()],
            };
            let points = line.points.iter().map(|&(share, value)| (self.x(share), self.y(value)));
            let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            writeln!(out, r##"<polyline points="{}" {stroke}/>"##, points.join(" "))?;
            for point in &points {
                let (x, y) = point.split_once(',').expect("made above");
                writeln!(out, r##"<circle cx="{x}" cy="{y}" r="3" fill="{}"/>"##, stroke.colour)?;
            }
            legend(out, index + 1, &line.name, &stroke)?;
        }
        Ok(())
    }
}

struct Stroke {
    colour: &'static str,
    dash: &'static str,
}

impl fmt::Display for Stroke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stroke { colour, dash } = self;
        write!(f, r##"fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}""##)
    }
}

impl fmt::Display for LinePlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 400""##)?;
        writeln!(f, r##" font-family="sans-serif" font-size="12">"##)?;
        writeln!(f, r##"<rect width="760" height="400" fill="#fff"/>"##)?;
        self.draw_axes(f)?;
        self.draw_lines(f)?;
        writeln!(f, "</svg>")
    }
}

fn legend(out: &mut impl Write, index: usize, name: &str, stroke: &Stroke) -> fmt::Result {
    let (x, y) = (LEFT + PLOT_WIDTH + 16.0, TOP + 10.0 + 18.0 * index as f64);
    let (end, text_x, text_y) = (x + 24.0, x + 30.0, y + 4.0);
    let name = escaped(name);
    writeln!(
        out,
        r##"<path d="M{x} {y}H{end}" {stroke}/><text x="{text_x}" y="{text_y}">{name}</text>"##
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_points_and_its_name() {
        let plot = LinePlot {
            title: "a < b".into(),
            unit: "perplexity",
            level: ("dense".into(), 10.0),
            lines: vec![Line { name: "h2o & co".into(), points: vec![(0.25, 20.0), (0.5, 99.0)] }],
            range: (10.0, 20.0),
        };
        let svg = plot.to_string();
        // The first point stands at the upper end; the second is beyond it, and drawn there too.
        assert!(svg.contains(&format!("{:.1},{TOP:.1} ", plot.x(0.25))), "{svg}");
        assert_eq!(plot.y(99.0), TOP);
        assert_eq!(plot.y(10.0), TOP + PLOT_HEIGHT);
        assert!(svg.contains("h2o &amp; co") && svg.contains("a &lt; b"));
        assert_eq!(svg.matches("<circle").count(), 2);
    }
}
