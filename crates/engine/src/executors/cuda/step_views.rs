//! A step's arrays as the views that its kernels take.

use terrace_device::{DType, View, Workspace};
use terrace_kernels::{
    GroupKv, KvLayout, PageLayout, PagedKv, ReadRope, SlotKv, SlotLayout, SlotRule,
};
use terrace_model::KvSegment;

use super::step_arrays::StepArrays;
use super::step_form::{Array, ArraySpan, SegmentForm, StepForm};

pub(super) struct StepViews<'a> {
    pub form: &'a StepForm,
    pub arrays: &'a StepArrays,
    pub scratch: &'a Workspace,
}

pub(super) fn span_of(form: &StepForm, array: Array) -> ArraySpan {
    let places = form.places();
    let found = places.iter().find(|(known, _)| *known == array);
    found.map(|(_, place)| *place).unwrap_or_else(|| panic!("a step without {array:?}"))
}

impl<'a> StepViews<'a> {
    /// i32 `[count]`
    pub fn view(&self, array: Array) -> View<'a> {
        self.arrays.view(span_of(self.form, array))
    }

    /// f32 `[count]`
    fn numbers(&self, array: Array) -> View<'a> {
        self.arrays.numbers(span_of(self.form, array))
    }

    pub fn segments(&self) -> Vec<KvSegment<'a>> {
        let segments = self.form.segments.iter().enumerate();
        segments.map(|(index, segment)| self.segment(index, segment)).collect()
    }

    fn segment(&self, index: usize, segment: &'a SegmentForm) -> KvSegment<'a> {
        let groups = segment.groups.iter().enumerate().map(|(group, form)| match form.layout {
            KvLayout::Dense(layout) => GroupKv::Dense(self.dense(index, segment, group, layout)),
            KvLayout::Slots(layout) => GroupKv::Slots(self.slots(index, segment, group, layout)),
        });
        KvSegment {
            rows: segment.rows.clone(),
            groups: groups.collect(),
            locations: &segment.locations,
        }
    }

    fn dense(
        &self,
        index: usize,
        segment: &SegmentForm,
        group: usize,
        layout: PageLayout,
    ) -> PagedKv<'a> {
        PagedKv {
            layout,
            pages: GroupKv::no_pages(),
            block_tables: self.tables(index, segment, group),
            past_tokens: self.view(Array::PastTokens(index)),
            live_starts: self.view(Array::LiveStarts(index)),
            commit_slots: self.view(Array::CommitSlots(index, group)),
            singles: segment.singles,
            chunk_tiles: self.view(Array::Tiles(index)).reshape([segment.tiles, 2]),
            row_seqs: self.view(Array::RowSeqs(index)),
        }
    }

    fn slots(
        &self,
        index: usize,
        segment: &SegmentForm,
        group: usize,
        layout: SlotLayout,
    ) -> SlotKv<'a> {
        let rules = self.view(Array::Rules(index, group));
        let rerotated = Array::RerotatedPositions(index, group);
        let shape = [layout.layers, segment.rows.len(), layout.kv_heads];
        SlotKv {
            layout,
            pages: GroupKv::no_pages(),
            block_tables: self.tables(index, segment, group),
            rules: rules.reshape([segment.seqs, SlotRule::WORDS]),
            live_starts: self.view(Array::LiveStarts(index)),
            slots: self.scratch.take(DType::I32, shape),
            rerotated_positions: segment.groups[group].turns.then(|| self.view(rerotated)),
            scorers: &[],
            read_rope: (0 < segment.read_pairs).then(|| ReadRope {
                inv_freqs: self
                    .numbers(Array::InvFreqs(index))
                    .reshape([segment.seqs, segment.read_pairs]),
                scales: self.numbers(Array::RopeScales(index)),
            }),
            singles: segment.singles,
            chunk_tiles: self.view(Array::Tiles(index)).reshape([segment.tiles, 2]),
            row_seqs: self.view(Array::RowSeqs(index)),
        }
    }

    fn tables(&self, index: usize, segment: &SegmentForm, group: usize) -> View<'a> {
        let tables = self.view(Array::Tables(index, group));
        tables.reshape([segment.seqs, segment.groups[group].table_pages])
    }
}
