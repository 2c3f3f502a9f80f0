//! Every run of gradients in a folder of golden data.

use terrace_cache::policy::TableShape;
use terrace_golden::{GoldenCase, GoldenFolder, GoldenTensors, SetFindings};
use terrace_kernels::{Ops, TuneOps};

use super::gradient_run::GradientRun;
use super::litgpt_names::LitGptNames;
use super::recorded_log::{RecordedHead, log_of};
use crate::batch::Batch;
use crate::error::Error;
use crate::gradient_pass::{BatchLoss, GradientPass};
use crate::head::Head;
use crate::model::{Gradients, TunedModel, WeightsAt};
use crate::slots::BatchReplay;

/// Of the loss, and of each gradient relative to its array's largest entry.
const TOLERANCE: f32 = 1e-5;
/// Where checkpoints are quantised: 8 bits are steps of 1/255 of a block's range, which the
/// original also takes of gradients between rows, and it cuts off zero points, which is a defect.
const QUANTISED_TOLERANCE: f32 = 1.5e-1;

pub fn check_folder(folder: &GoldenFolder, ops: &Ops) -> Result<Vec<SetFindings>, Error> {
    let ops = ops.tuning()?;
    let mut exact = SetFindings::new("grad", TOLERANCE);
    let mut quantised = SetFindings::new("grad-quant", QUANTISED_TOLERANCE);
    for case in folder.cases::<GradientRun>("gradient_run")? {
        let weights = folder.tensors(&case.about.weights)?;
        let is_quantised = case.about.has_quantised_checkpoints();
        let findings = if is_quantised { &mut quantised } else { &mut exact };
        if !case.about.config.is_known() {
            findings.left_out.push(format!("{}: no family has such layers", case.name));
            continue;
        }
        findings.cases += 1;
        let mut found = SetFindings::new(findings.set, findings.tolerance);
        Check { ops, case: &case, weights: &weights }.run(&mut found)?;
        findings.add(found, case.about.min_score_gap);
    }
    Ok([exact, quantised].into_iter().filter(|set| set.cases > 0).collect())
}

struct Check<'a> {
    ops: TuneOps<'a>,
    case: &'a GoldenCase<GradientRun>,
    weights: &'a GoldenTensors,
}

impl Check<'_> {
    fn run(&self, findings: &mut SetFindings) -> Result<(), Error> {
        let (run, tensors) = (&self.case.about, &self.case.tensors);
        let [seqs, tokens] = tensors.dims("input_ids")?;
        let [_, target_tokens] = tensors.dims("targets")?;
        let batch = Batch {
            seqs,
            ids: tensors.i32("input_ids", [seqs, tokens])?,
            targets: tensors.i32("targets", [seqs, target_tokens])?,
        };
        let mut spec = run.config.spec(tokens, run.yarn)?;
        run.config.round_frequencies(&mut spec, tokens, run.yarn);
        let training = run.training(self.weights)?;
        let decoder = run.config.tensors(self.weights)?;
        let (head, weights_at) = (Head::NextToken, WeightsAt::Device);
        let mut model = TunedModel::new(&self.ops, &spec, &decoder, training, head, weights_at)?;
        let names = LitGptNames { config: &run.config, training };
        self.set_branches(&mut model, &names)?;
        let (cache, options) = (run.cache()?, run.options()?);
        let pass =
            GradientPass { ops: self.ops, model: &model, spec: &spec, cache: &cache, options };
        self.check_lattice(&pass, &batch, findings)?;
        let mut gradients = model.gradients(&self.ops)?;
        let recorded = self.recorded(seqs)?;
        let found = match run.ring_slots() {
            0 => {
                let found = pass.run(&batch, &mut gradients)?;
                self.check_replay(&found, &recorded, findings);
                found
            }
            // Its newest tokens inherit scores, so it decides otherwise than any rule of ours.
            _ => pass.run_replay(&batch, recorded, &mut gradients)?,
        };
        let loss = tensors.f32("loss", [1])?;
        let name = || format!("{} loss", self.case.name);
        findings.compare(&[found.loss as f32], loss, name);
        self.check_gradients(&model, &gradients, &names, findings)
    }

    /// Branches are given, where a new model's begin with zeros.
    fn set_branches(&self, model: &mut TunedModel, names: &LitGptNames<'_>) -> Result<(), Error> {
        let infos = model.parameters().to_vec();
        let mut wrong = None;
        model.change(&self.ops, &mut |id, numbers| {
            let rows = names.rows_of(&infos[id.index()]);
            if !rows.name.contains("lora_") {
                return;
            }
            match self.weights.f32s(&rows.name) {
                Ok(all) => {
                    let width = numbers.len() / rows.rows.len();
                    let part = &all[rows.rows.start * width..rows.rows.end * width];
                    numbers.copy_from_slice(part);
                }
                Err(error) => wrong = Some(error),
            }
        })?;
        wrong.map_or(Ok(()), |error| Err(error.into()))
    }

    fn check_lattice(
        &self,
        pass: &GradientPass<'_>,
        batch: &Batch<'_>,
        findings: &mut SetFindings,
    ) -> Result<(), Error> {
        let lattice = pass.lattice(batch)?;
        lattice.check();
        let name = |what: &str| format!("{} {what}", self.case.name);
        let run = &self.case.about;
        findings.compare_exactly(lattice.chunks(), &run.chunk_sizes, || name("chunks"));
        let cells: Vec<usize> = lattice.cells().iter().map(|cell| cell.chunks.len()).collect();
        findings.compare_exactly(&cells, &run.chunks_per_cell, || name("chunks of cells"));
        Ok(())
    }

    fn check_replay(&self, found: &BatchLoss, recorded: &BatchReplay, findings: &mut SetFindings) {
        for (seq, (found, wanted)) in found.replay.logs().iter().zip(recorded.logs()).enumerate() {
            for layer in 0..wanted.layers() {
                for head in 0..wanted.shape(layer).kv_heads {
                    let of = |log: &terrace_cache::policy::ReplayLog| -> Vec<u32> {
                        log.slots(layer, head, 0..log.tokens()).collect()
                    };
                    findings.compare_exactly(&of(found), &of(wanted), || {
                        let case = &self.case.name;
                        format!("{case} slots of sequence {seq}, layer {layer}, head {head}")
                    });
                }
            }
        }
    }

    /// The original's decisions as our logs.
    fn recorded(&self, seqs: usize) -> Result<BatchReplay, Error> {
        let (run, tensors) = (&self.case.about, &self.case.tensors);
        let cache = run.cache()?;
        let kv_heads = run.config.n_query_groups;
        let layers = 0..run.config.n_layer;
        let shapes: Vec<TableShape> = layers
            .clone()
            .map(|layer| TableShape { kv_heads, slots: cache.slots(layer) })
            .collect();
        let all: usize = run.chunk_sizes.iter().sum();
        let mut logs = Vec::new();
        for seq in 0..seqs {
            let mut of_layers = Vec::new();
            for (layer, shape) in layers.clone().zip(&shapes) {
                let beyond = all.saturating_sub(shape.slots);
                let name = format!("replay_slots.layer{layer}");
                let slots = tensors.i32(&name, [seqs, kv_heads, beyond])?;
                let of_seq = &slots[seq * kv_heads * beyond..(seq + 1) * kv_heads * beyond];
                let head = |head: usize| {
                    let chosen = &of_seq[head * beyond..(head + 1) * beyond];
                    let (ring, chunks) = (run.ring_slots(), &run.chunk_sizes);
                    RecordedHead { slots: shape.slots, ring, chunks, chosen }.slots_of_tokens()
                };
                of_layers.push((0..kv_heads).map(head).collect());
            }
            logs.push(log_of(&shapes, &run.chunk_sizes, &of_layers));
        }
        Ok(BatchReplay::new(logs))
    }

    fn check_gradients(
        &self,
        model: &TunedModel,
        gradients: &Gradients,
        names: &LitGptNames<'_>,
        findings: &mut SetFindings,
    ) -> Result<(), Error> {
        for (info, got) in model.parameters().iter().zip(gradients.all()) {
            let rows = names.rows_of(info);
            let want = self.case.tensors.f32s(&format!("grad.{}", rows.name))?;
            let largest = want.iter().fold(f32::MIN_POSITIVE, |most, x| most.max(x.abs()));
            let width = got.len() / rows.rows.len();
            let want = &want[rows.rows.start * width..rows.rows.end * width];
            let relative =
                |numbers: &[f32]| -> Vec<f32> { numbers.iter().map(|x| x / largest).collect() };
            let name = || format!("{} {}", self.case.name, info.name);
            findings.compare(&relative(got), &relative(want), name);
        }
        Ok(())
    }
}
