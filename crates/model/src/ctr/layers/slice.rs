//! Slice: ranges of columns, which may overlap.

use std::ops::Range;

use super::shape_rules::one;
use crate::ctr::ctr_layer::{CtrForm, CtrLayer};
use crate::ctr::ctr_shape::CtrShape;
use crate::ctr::layer_fields::LayerFields;

struct Slice {
    ranges: Vec<Range<usize>>,
}

pub(super) fn read(fields: &LayerFields<'_>) -> Result<Box<dyn CtrLayer>, String> {
    let ranges = fields.pairs("ranges")?.into_iter().map(|[start, end]| start..end).collect();
    Ok(Box::new(Slice { ranges }))
}

impl CtrLayer for Slice {
    fn shapes(&self, bottoms: &[CtrShape]) -> Result<Vec<CtrShape>, String> {
        let bottom = one(bottoms)?;
        let shape =
            |range: &Range<usize>| match range.start < range.end && range.end <= bottom.last() {
                true => bottom.with_last(range.len()),
                false => Err(format!(
                    "range [{}, {}] is none of the {} columns of its bottom {bottom}",
                    range.start,
                    range.end,
                    bottom.last()
                )),
            };
        self.ranges.iter().map(shape).collect()
    }

    fn form(&self, bottoms: &[CtrShape]) -> CtrForm<'_> {
        let rows = bottoms[0].numbers() / bottoms[0].last();
        CtrForm::Columns { rows, ranges: self.ranges.clone() }
    }
}
