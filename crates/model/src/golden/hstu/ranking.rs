//! A whole ranking model: without a cache, and in two requests over pages that the golden data
//! names, whose second brings what the first has not computed.

use terrace_device::{DType, Workspace};
use terrace_golden::SetFindings;
use terrace_kernels::{BiasedWeight, Ops, Pointwise};

use super::case::Case;
use super::stack_run::{Rows, StackRun};
use crate::error::Error;
use crate::golden::placed::Placed;
use crate::hstu::{
    HistoryToken, HstuLayerSpec, HstuLayerTensors, HstuModel, HstuStack, HstuStep, HstuStepCtx,
    JaggedFeatures, MaskSpec, Mlp, SequenceParts, StreamMlps, StreamRows, TokenLayout, TokenRows,
    position_row,
};

pub(super) fn check(case: &Case, ops: &Ops, findings: &mut SetFindings) -> Result<(), Error> {
    let golden = Golden::new(case, ops)?;
    let whole = golden.features("in")?;
    let candidates = case.integers("in.num_candidates")?;
    let none = vec![0; candidates.len()];
    let layout = golden.model.stack().page_layout(case.count("page_size")?, DType::F32);
    let longest = golden.history(&whole, &candidates, &none).into_iter().max().unwrap_or(0);

    let mut uncached = StackRun::new(ops, layout, candidates.len(), longest)?;
    let got = golden.score(&mut uncached, &whole, &candidates, &none, Some(findings))?;
    let at = |what: &str| format!("{}: {what}", case.name);
    findings.compare(&got, case.tensors.f32s("logits")?, || at("logits"));

    let first = golden.features("req1")?;
    let pages = case.count("num_pages")?;
    let mut cached = StackRun::over(ops, layout, pages, golden.tables("req1")?)?;
    let got = golden.score(&mut cached, &first, &candidates, &none, None)?;
    findings.compare(&got, case.tensors.f32s("req1.logits")?, || at("req1.logits"));
    golden.check_tables("req1", &cached, findings)?;

    let lengths = case.integers("req2.cached_lengths")?;
    let found: Vec<usize> = cached.past.clone();
    findings.compare_exactly(&found, &lengths, || at("cached lengths"));
    let stripped = whole.strip_cached(&lengths);
    let second = golden.features("req2")?;
    findings.compare_exactly(&stripped.values, &second.values, || at("req2.values"));
    findings.compare_exactly(&stripped.lengths, &second.lengths, || at("req2.lengths"));
    cached.set_tables(golden.tables("req2")?);
    let got = golden.score(&mut cached, &second, &candidates, &lengths, None)?;
    findings.compare(&got, case.tensors.f32s("req2.logits")?, || at("req2.logits"));
    golden.check_tables("req2", &cached, findings)
}

struct Golden<'a> {
    case: &'a Case,
    ops: &'a Ops,
    model: HstuModel,
    /// All embedding tables, one after the other, and where each begins.
    rows: Placed,
    starts: Vec<usize>,
}

impl<'a> Golden<'a> {
    fn new(case: &'a Case, ops: &'a Ops) -> Result<Self, Error> {
        let context = case.texts("contextual_features")?;
        let names = context.iter().map(String::as_str).chain(["item", "action"]);
        let (mut rows, mut starts) = (Vec::new(), Vec::new());
        let hidden = case.count("hidden")?;
        for name in names {
            starts.push(rows.len() / hidden);
            rows.extend(case.tensors.f32s(&format!("emb.{name}"))?);
        }
        let count = rows.len() / hidden;
        let rows = Placed::f32s(&ops.device(), &rows, [count, hidden])?;
        let layout = TokenLayout { context: context.len(), has_actions: true };
        let model = HstuModel::place(
            ops,
            layout,
            case.number("embedding_scale")? as f32,
            Some(case.tensors.f32s("pos_emb")?),
            StreamMlps::default(),
            stack(case, ops)?,
            Some(head(case, ops)?),
        )?;
        Ok(Golden { case, ops, model, rows, starts })
    }

    fn features(&self, request: &str) -> Result<JaggedFeatures, Error> {
        Ok(JaggedFeatures {
            values: self.case.tensors.i64s(&format!("{request}.values"))?.to_vec(),
            lengths: self.case.integers(&format!("{request}.lengths"))?,
            users: self.case.count("batch")?,
        })
    }

    /// Tokens of each history, the cached ones included.
    fn history(
        &self,
        features: &JaggedFeatures,
        candidates: &[usize],
        cached: &[usize],
    ) -> Vec<usize> {
        let context = self.model.layout.context;
        let of = |user: usize| {
            let of_context: usize = (0..context).map(|it| features.of(it, user).len()).sum();
            let items = features.of(context, user).len() - candidates[user];
            let actions = features.of(context + 1, user).len() - candidates[user];
            cached[user] + of_context + items + actions
        };
        (0..candidates.len()).map(of).collect()
    }

    /// The logits of all candidates; `features` are what is not cached.
    fn score(
        &self,
        run: &mut StackRun<'_>,
        features: &JaggedFeatures,
        candidates: &[usize],
        cached: &[usize],
        findings: Option<&mut SetFindings>,
    ) -> Result<Vec<f32>, Error> {
        let (layout, history) = (self.model.layout, self.history(features, candidates, cached));
        let (mut ids, mut positions, mut scored) = (Vec::new(), Vec::new(), Vec::new());
        let mut rows = Vec::new();
        let table_rows = self.model.position_rows().expect("this model has positions");
        for user in 0..candidates.len() {
            let gone = layout.prefix(cached[user]);
            for position in cached[user]..history[user] {
                let (feature, number) = match layout.token(position) {
                    HistoryToken::Context(feature) => (feature, 0),
                    HistoryToken::Item(item) => (layout.context, item - gone[1]),
                    HistoryToken::Action(item) => (layout.context + 1, item - gone[2]),
                };
                let id = features.of(feature, user)[number] as usize;
                ids.push((self.starts[feature] + id) as i32);
                positions.push(position_row(position, history[user], table_rows) as i32);
            }
            let items = features.of(layout.context, user);
            for item in &items[items.len() - candidates[user]..] {
                scored.push(ids.len() as i32);
                ids.push((self.starts[layout.context] + *item as usize) as i32);
                positions.push(position_row(usize::MAX, history[user], table_rows) as i32);
            }
            let new = history[user] - cached[user];
            rows.push(Rows {
                parts: SequenceParts {
                    context: None,
                    history: history[user],
                    candidates: candidates[user],
                },
                history_rows: new,
                candidate_rows: candidates[user],
            });
        }
        let (ops, device) = (self.ops, self.ops.device());
        let vector = |values: &[i32]| Placed::i32s(&device, values, [values.len()]);
        let (ids, positions) = (vector(&ids)?, vector(&positions)?);
        let (tokens, count) = (ids.view().shape().count(), scored.len());
        let scored = vector(&scored)?;
        let step = HstuStep {
            rows: TokenRows {
                items: StreamRows { rows: self.rows.view(), ids: ids.view() },
                apart: None,
            },
            position_rows: positions.view(),
            scored: scored.view(),
            times: None,
        };
        if let Some(findings) = findings {
            self.check_embedded(&step, tokens, findings)?;
        }
        let mut out = Placed::zeros(&device, DType::F32, [count, self.model.outputs()])?;
        let layout = run.layout;
        let bytes = |size| self.model.workspace_bytes(ops, &layout, size, count);
        run.step(&MaskSpec::CAUSAL, &rows, bytes, |workspace, kv| {
            let ctx = HstuStepCtx::new(ops, workspace);
            self.model.forward(ctx, step, kv, out.view_mut());
        })?;
        out.numbers(&device)
    }

    /// The inputs of the first layer.
    fn check_embedded(
        &self,
        step: &HstuStep<'_>,
        tokens: usize,
        findings: &mut SetFindings,
    ) -> Result<(), Error> {
        let (hidden, device) = (self.model.stack().spec().hidden, self.ops.device());
        let mut out = Placed::zeros(&device, DType::F32, [tokens, hidden])?;
        let workspace = Workspace::new(&device, 0)?;
        self.model.embed(HstuStepCtx::new(self.ops, &workspace), step, out.view_mut());
        let (got, want) = (out.numbers(&device)?, self.case.tensors.f32s("hidden0")?);
        findings.compare(&got, want, || format!("{}: hidden0", self.case.name));
        Ok(())
    }

    /// The page tables of a request.
    fn tables(&self, request: &str) -> Result<Vec<Vec<i32>>, Error> {
        let starts = self.case.integers(&format!("{request}.kv_indptr"))?;
        let pages = self.case.tensors.i32s(&format!("{request}.kv_indices"))?;
        Ok(starts.windows(2).map(|pair| pages[pair[0]..pair[1]].to_vec()).collect())
    }

    /// What each slot holds that was ever written; the golden tables are
    /// `[pages, keys and values, page, heads, dim]`, 0 elsewhere.
    fn check_tables(
        &self,
        request: &str,
        run: &StackRun<'_>,
        findings: &mut SetFindings,
    ) -> Result<(), Error> {
        let width = self.model.stack().spec().key_width();
        let (page_tokens, tables) = (run.layout.page_tokens, self.tables(request)?);
        for layer in 0..self.model.stack().layers() {
            let name = format!("{request}.table{layer}_after");
            let golden = self.case.tensors.f32s(&name)?;
            for side in 0..2 {
                let filled = |(user, tokens): (usize, &usize)| {
                    (0..*tokens).map(move |position| (user, position)).collect::<Vec<_>>()
                };
                let filled: Vec<_> = run.past.iter().enumerate().flat_map(filled).collect();
                let got = run.stored_rows(filled.iter().copied(), layer, side)?;
                let want: Vec<f32> = (filled.iter())
                    .flat_map(|(user, position)| {
                        let page = tables[*user][position / page_tokens] as usize;
                        let row = (2 * page + side) * page_tokens + position % page_tokens;
                        golden[row * width..(row + 1) * width].to_vec()
                    })
                    .collect();
                findings.compare(&got, &want, || format!("{}: {name}", self.case.name));
            }
        }
        Ok(())
    }
}

fn stack(case: &Case, ops: &Ops) -> Result<HstuStack, Error> {
    let (hidden, heads) = (case.count("hidden")?, case.count("heads")?);
    let divisor = case.count("scaling_seqlen")? as f32;
    let spec = HstuLayerSpec::nvidia(hidden, heads, case.count("head_dim")?, divisor);
    let spec = HstuLayerSpec { eps: case.number("eps")? as f32, ..spec };
    let layer = |layer: usize| -> Result<HstuLayerTensors, Error> {
        let name = |tensor: &str| format!("layer{layer}.{tensor}");
        let norm = |part: &str| {
            case.norm(&name(&format!("{part}_norm_weight")), &name(&format!("{part}_norm_bias")))
        };
        Ok(HstuLayerTensors {
            input_norm: Some(norm("input")?),
            uvqk: BiasedWeight {
                weight: case.matrix(&name("uvqk_weight"))?,
                bias: Some(case.tensors.f32s(&name("uvqk_bias"))?.to_vec()),
            },
            output_norm: Some(norm("output")?),
            output: BiasedWeight { weight: case.matrix(&name("proj_weight"))?, bias: None },
            bias: None,
        })
    };
    let layers = (0..case.count("layers")?).map(layer).collect::<Result<_, _>>()?;
    HstuStack::place(ops, spec, layers)
}

fn head(case: &Case, ops: &Ops) -> Result<Mlp, Error> {
    let layer = |layer: usize| -> Result<BiasedWeight, Error> {
        let weight = case.matrix(&format!("head{layer}.weight"))?;
        let bias = Some(case.tensors.f32s(&format!("head{layer}.bias"))?.to_vec());
        Ok(BiasedWeight { weight, bias })
    };
    let layers = (0..case.counts("head_arch")?.len()).map(layer).collect::<Result<_, _>>()?;
    let activation = match case.text("head_activation")? {
        "gelu" => Pointwise::Gelu,
        _ => Pointwise::Relu,
    };
    Mlp::place(ops, layers, activation)
}
