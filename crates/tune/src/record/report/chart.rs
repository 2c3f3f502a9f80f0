//! Curves over the steps of a run, as a figure of the page with an SVG in it.

use std::fmt::{self, Display, Formatter};

use super::chart_frame::ChartFrame;
use super::curve::{Curve, CurveKind, Point, is_drawable, thinned};
use super::escaped::escaped;
use super::short_number::short_number;

pub struct Chart {
    pub title: String,
    /// The vertical axis reaches down to it; `None`: as far as the values do.
    pub floor: Option<f64>,
    /// The first one is what the chart is about.
    pub curves: Vec<Curve>,
}

/// A chart and its number on the page.
pub struct Figure<'a> {
    pub chart: &'a Chart,
    pub number: usize,
}

impl Chart {
    pub fn is_empty(&self) -> bool {
        self.curves.iter().all(|curve| curve.points.is_empty())
    }

    fn frame(&self) -> ChartFrame {
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        ChartFrame::around(points.copied(), self.floor)
    }

    /// What a chart shows to those who see it, in words; a smoothed line adds nothing to it.
    fn in_words(&self) -> String {
        let curves = self.curves.iter().filter(|curve| curve.kind != CurveKind::Smoothed);
        let curves: Vec<String> = curves.filter_map(curve_in_words).collect();
        curves.join(". ")
    }
}

fn curve_in_words(curve: &Curve) -> Option<String> {
    let at = |(step, value): Point| format!("{} at step {step}", short_number(value));
    let (first, last) = (*curve.points.first()?, *curve.points.last()?);
    let mut words = format!("{}: {}, {}", curve.name, at(first), at(last));
    let drawable = curve.points.iter().copied().filter(|point| is_drawable(point.1));
    let lowest = drawable.clone().min_by(|a, b| a.1.total_cmp(&b.1));
    let highest = drawable.clone().max_by(|a, b| a.1.total_cmp(&b.1));
    if let (Some(lowest), Some(highest)) = (lowest, highest) {
        words += &format!("; lowest {}, highest {}", at(lowest), at(highest));
    }
    let left_out = curve.points.len() - drawable.count();
    if left_out > 0 {
        words += &format!("; {left_out} of {} are not finite", curve.points.len());
    }
    Some(words)
}

impl Display for Figure<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Figure { chart, number } = self;
        let (title, words) = (escaped(&chart.title), escaped(&chart.in_words()));
        writeln!(f, "<figure>\n<figcaption>{title}</figcaption>")?;
        let frame = chart.frame();
        let (width, height) = ChartFrame::SIZE;
        let ids = format!("title-{number} words-{number}");
        writeln!(
            f,
            r#"<svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="{ids}">
<title id="title-{number}">{title}, by step</title>
<desc id="words-{number}">{words}</desc>"#
        )?;
        write!(f, "{frame}")?;
        for curve in &chart.curves {
            draw(f, &frame, curve)?;
        }
        writeln!(f, "</svg>")?;
        if chart.curves.len() > 1 {
            writeln!(f, "<ul>")?;
            for Curve { name, kind, .. } in &chart.curves {
                writeln!(f, r#"<li class="{}">{}</li>"#, kind.class(), escaped(name))?;
            }
            writeln!(f, "</ul>")?;
        }
        // Those who hear the page have heard it with the drawing.
        writeln!(f, r#"<p aria-hidden="true">{words}</p>{}</figure>"#, "\n")
    }
}

fn draw(f: &mut Formatter<'_>, frame: &ChartFrame, curve: &Curve) -> fmt::Result {
    let class = curve.kind.class();
    let neighbours =
        curve.points.chunk_by(|left, right| is_drawable(left.1) && is_drawable(right.1));
    for run in neighbours.filter(|run| is_drawable(run[0].1)) {
        let placed: Vec<Point> = run.iter().map(|point| frame.place(*point)).collect();
        let placed = thinned(&placed);
        let points: Vec<String> = placed.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        // A line of no length, so that a point without neighbours is a dot.
        let end = if points.len() == 1 { "h0" } else { "" };
        writeln!(f, r#"<path class="{class}" d="M{}{end}"/>"#, points.join("L"))?;
        if curve.kind == CurveKind::Validation {
            for (x, y) in &placed {
                writeln!(f, r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="3"/>"#)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(curves: Vec<Curve>) -> String {
        let chart = Chart { title: "Loss <1>".to_owned(), floor: None, curves };
        Figure { chart: &chart, number: 3 }.to_string()
    }

    fn curve(kind: CurveKind, values: &[f64]) -> Curve {
        let points = (1..).map(f64::from).zip(values.iter().copied()).collect();
        Curve { name: "training", kind, points }
    }

    #[test]
    fn a_line_goes_through_its_points() {
        let svg = figure(vec![curve(CurveKind::Training, &[4.0, 2.0, 3.0])]);
        // From the left to the right end, and from the upper end of the axis to the lower.
        assert!(
            svg.contains(r#"class="training" d="M56.0 10.0L230.0 200.0L404.0 105.0""#),
            "{svg}"
        );
        assert!(svg.contains(r#"<title id="title-3">Loss &lt;1&gt;, by step</title>"#), "{svg}");
        let words = "training: 4.000 at step 1, 3.000 at step 3; \
                     lowest 2.000 at step 2, highest 4.000 at step 1";
        assert!(svg.contains(&format!(r#"<desc id="words-3">{words}</desc>"#)), "{svg}");
        assert!(!svg.contains("<ul>"), "one line needs no legend");
    }

    #[test]
    fn values_that_are_no_numbers_leave_gaps() {
        let values = [4.0, 3.0, f64::NAN, 2.0, f64::INFINITY, f64::NEG_INFINITY, 3.0, 1e300];
        let svg = figure(vec![curve(CurveKind::Training, &values)]);
        assert_eq!(svg.matches(r#"class="training""#).count(), 3, "{svg}");
        assert_eq!(svg.matches("h0").count(), 2, "two points have no neighbours: {svg}");
        assert!(svg.contains("; 4 of 8 are not finite"), "{svg}");
        let drawn = svg.lines().filter(|line| line.contains(" d=\""));
        assert!(drawn.clone().all(|line| !line.contains("NaN") && !line.contains("inf")), "{svg}");
    }

    #[test]
    fn nothing_but_nan_is_a_chart_without_a_line() {
        let svg = figure(vec![curve(CurveKind::Noisy, &[f64::NAN; 2])]);
        assert!(svg.contains("NaN at step 1") && svg.contains("2 of 2 are not finite"), "{svg}");
        assert!(svg.contains("class=\"axis\"") && !svg.contains("class=\"noisy\""), "{svg}");
    }

    #[test]
    fn points_of_validation_are_marked() {
        let training = curve(CurveKind::Noisy, &[4.0, 3.0]);
        let validation = Curve { name: "a & b", ..curve(CurveKind::Validation, &[5.0, 4.0]) };
        let svg = figure(vec![training, validation]);
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains(r#"<li class="validation">a &amp; b</li>"#), "{svg}");
    }
}
