//! Rows stored in slots: their quantised values, scales and zero points, what they read as, and
//! what that changes.

use terrace_kernels::{Quantiser, RowFormat, SlotLayout, SlotNotes};

use super::case_kinds::QuantiserCase;
use super::driven_slots::{DrivenSlots, PagedOps, RunShape, SeqStep};
use super::error::GoldenError;
use super::host_slots::{HostSlots, SlotArray, SlotAt};
use crate::policy::{Rule, SlotFormat};
use crate::reference::ChunkRows;
use terrace_golden::{GoldenCase, SetFindings};

pub(super) struct QuantiserCheck<'a> {
    golden: &'a GoldenCase<QuantiserCase>,
    quantiser: Quantiser,
    /// rows, kv_heads, tokens, dim
    dims: [usize; 4],
}

impl<'a> QuantiserCheck<'a> {
    /// `None` where blocks span heads, which only the reference of a fixed batch knows.
    pub fn new(golden: &'a GoldenCase<QuantiserCase>) -> Result<Option<Self>, GoldenError> {
        let name = &golden.about.name;
        let quantiser = SlotFormat::named(name).and_then(SlotFormat::quantiser);
        let Some(quantiser) = quantiser else {
            let problem = format!("there is no quantiser {name}");
            return Err(golden.tensors.malformed(problem).into());
        };
        let dims = golden.tensors.dims("x")?;
        let [_, _, code_bytes] = golden.tensors.dims("q")?;
        let spans = golden.about.blocks_over_heads || code_bytes != quantiser.code_bytes(dims[3]);
        Ok((!spans).then_some(QuantiserCheck { golden, quantiser, dims }))
    }

    pub fn run(&self, on: PagedOps<'_>, findings: &mut SetFindings) -> Result<(), GoldenError> {
        let [rows, kv_heads, tokens, dim] = self.dims;
        let layout = SlotLayout {
            layers: 1,
            kv_heads,
            page_slots: on.page_slots,
            key_dim: dim,
            value_dim: dim,
            keys: RowFormat::Quantised(self.quantiser),
            values: RowFormat::F32,
            notes: SlotNotes { errors: true, ..SlotNotes::default() },
        };
        let shape =
            RunShape { layout, heads: kv_heads, scale: 1.0, window: None, rotation: Vec::new() };
        let mut run = DrivenSlots::new(on.ops, shape, rows, tokens)?;
        let x = self.golden.tensors.f32("x", self.dims)?;
        let policy = |source| GoldenError::Policy { case: self.golden.name.clone(), source };
        let rule = Rule::Keep.slot_rule(tokens, 0, tokens, tokens).map_err(policy)?;
        let of_row = x.chunks_exact(kv_heads * tokens * dim);
        let steps: Vec<SeqStep<'_>> = of_row
            .enumerate()
            .map(|(seq, x)| SeqStep {
                seq,
                rule,
                rows: vec![ChunkRows { tokens, query: x, keys: x, values: x }],
            })
            .collect();
        run.step(&steps)?;
        let host = run.host_slots()?;
        for (i, x) in x.chunks_exact(dim).enumerate() {
            let (seq, head) = (i / (kv_heads * tokens), i / tokens % kv_heads);
            let at = SlotAt { seq, layer: 0, head, slot: i % tokens };
            self.check_row(i, x, &host, at, findings)?;
        }
        Ok(())
    }

    fn check_row(
        &self,
        i: usize,
        x: &[f32],
        host: &HostSlots,
        at: SlotAt,
        findings: &mut SetFindings,
    ) -> Result<(), GoldenError> {
        let [rows, kv_heads, tokens, dim] = self.dims;
        let (tensors, blocks) = (&self.golden.tensors, [rows * kv_heads, tokens]);
        let code_bytes = self.quantiser.code_bytes(dim);
        let location = |what: &str| format!("{} {what} of row {i}", self.golden.name);
        let zero_point = match tensors.has("zero_point") {
            true => Some(tensors.i32("zero_point", blocks)?[i]),
            false => None,
        };
        let scale = tensors.f32(if zero_point.is_some() { "scale" } else { "absmax" }, blocks)?[i];
        let mut scales = scale.to_le_bytes().to_vec();
        scales.extend(zero_point.iter().flat_map(|zero| zero.to_le_bytes()));
        findings
            .compare_exactly(host.bytes(at, SlotArray::KeyScales), &scales, || location("scale"));
        // The original looks 8-bit values up by a number rounded to 16 bits: near the border of two
        // it may take the other.
        let searched = self.quantiser == Quantiser::Dynamic8;
        let codes = tensors.u8("q", [blocks[0], tokens, code_bytes])?;
        let codes = &codes[i * code_bytes..(i + 1) * code_bytes];
        if !searched {
            findings.compare_exactly(host.bytes(at, SlotArray::Keys), codes, || {
                location("quantised values")
            });
        }
        let slack = if searched { 3.1e-5 * scale } else { 0.0 };
        let got = host.row(at, SlotArray::Keys);
        let want = &tensors.f32("dequant", self.dims)?[i * dim..(i + 1) * dim];
        let as_near = |(x, (got, want)): (&f32, (&f32, &f32))| {
            got == want || ((x - got).abs() - (x - want).abs()).abs() <= slack
        };
        findings.numbers += dim;
        if !x.iter().zip(got.iter().zip(want)).all(as_near) {
            findings.compare_exactly(&got, want, || location("numbers"));
        }
        let error = host.note(at, SlotArray::Errors);
        let want = tensors.f32("error", [rows, kv_heads, tokens])?[i];
        let error = if (error - want).abs() <= slack { want } else { error };
        findings.compare(&[error], &[want], || location("error"));
        Ok(())
    }
}
