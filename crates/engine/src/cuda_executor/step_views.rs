//! A step's arrays as the views that its kernels take.

use terrace_device::{DType, View, Workspace};
use terrace_kernels::{
    GroupKv, KvLayout, PageLayout, PagedKv, ReadRope, SlotKv, SlotLayout, SlotRule,
};
use terrace_model::KvPart;

use super::step_arrays::StepArrays;
use super::step_form::{Array, PartForm, Place, StepForm};

pub(super) struct StepViews<'a> {
    pub form: &'a StepForm,
    pub arrays: &'a StepArrays,
    pub scratch: &'a Workspace,
}

pub(super) fn place_of(form: &StepForm, array: Array) -> Place {
    let places = form.places();
    let found = places.iter().find(|(known, _)| *known == array);
    found.map(|(_, place)| *place).unwrap_or_else(|| panic!("a step without {array:?}"))
}

impl<'a> StepViews<'a> {
    /// i32 `[count]`
    pub fn view(&self, array: Array) -> View<'a> {
        self.arrays.view(place_of(self.form, array))
    }

    /// f32 `[count]`
    fn numbers(&self, array: Array) -> View<'a> {
        self.arrays.numbers(place_of(self.form, array))
    }

    pub fn parts(&self) -> Vec<KvPart<'a>> {
        let parts = self.form.parts.iter().enumerate();
        parts.map(|(index, part)| self.part(index, part)).collect()
    }

    fn part(&self, index: usize, part: &'a PartForm) -> KvPart<'a> {
        let groups = part.groups.iter().enumerate().map(|(group, form)| match form.layout {
            KvLayout::Dense(layout) => GroupKv::Dense(self.dense(index, part, group, layout)),
            KvLayout::Slots(layout) => GroupKv::Slots(self.slots(index, part, group, layout)),
        });
        KvPart { rows: part.rows.clone(), groups: groups.collect(), homes: &part.homes }
    }

    fn dense(
        &self,
        index: usize,
        part: &PartForm,
        group: usize,
        layout: PageLayout,
    ) -> PagedKv<'a> {
        PagedKv {
            layout,
            pages: GroupKv::no_pages(),
            block_tables: self.tables(index, part, group),
            past_tokens: self.view(Array::PastTokens(index)),
            live_starts: self.view(Array::LiveStarts(index)),
            commit_slots: self.view(Array::CommitSlots(index)),
            singles: part.singles,
            chunk_tiles: self.view(Array::Tiles(index)).reshape([part.tiles, 2]),
            row_seqs: self.view(Array::RowSeqs(index)),
        }
    }

    fn slots(&self, index: usize, part: &PartForm, group: usize, layout: SlotLayout) -> SlotKv<'a> {
        let rules = self.view(Array::Rules(index, group));
        let turned = Array::TurnedPositions(index, group);
        let shape = [layout.layers, part.rows.len(), layout.kv_heads];
        SlotKv {
            layout,
            pages: GroupKv::no_pages(),
            block_tables: self.tables(index, part, group),
            rules: rules.reshape([part.seqs, SlotRule::WORDS]),
            live_starts: self.view(Array::LiveStarts(index)),
            slots: self.scratch.take(DType::I32, shape),
            turned_positions: part.groups[group].turns.then(|| self.view(turned)),
            scorers: &[],
            read_rope: (0 < part.read_pairs).then(|| ReadRope {
                inv_freqs: self
                    .numbers(Array::InvFreqs(index))
                    .reshape([part.seqs, part.read_pairs]),
                scales: self.numbers(Array::RopeScales(index)),
            }),
            singles: part.singles,
            chunk_tiles: self.view(Array::Tiles(index)).reshape([part.tiles, 2]),
            row_seqs: self.view(Array::RowSeqs(index)),
        }
    }

    fn tables(&self, index: usize, part: &PartForm, group: usize) -> View<'a> {
        let tables = self.view(Array::Tables(index, group));
        tables.reshape([part.seqs, part.groups[group].table_pages])
    }
}
