//! The rows of steps, where a device makes them.

use terrace_device::{DType, Device};

use crate::conformance::placed::Placed;
use crate::conformance::{Report, SplitMix};
use crate::hstu::step_rows::StepRowsArgs;
use crate::hstu::step_rows::reference::{StepRow, StepSeq, row};
use crate::ops::Ops;

pub(super) fn check(ops: &Ops, random: &mut SplitMix, report: &mut Report) {
    if matches!(ops.device(), Device::Cpu) {
        return;
    }
    for seqs in [1, 2, 3, 7, 64] {
        for position_rows in [0, 1, 50, 10_000] {
            step_rows(ops, random, report, seqs, position_rows);
        }
    }
}

/// Tokens that a table has pages for.
const TABLE_TOKENS: usize = 700;

/// Of one sequence: its table, tokens before, new ones, candidates, and their first page.
struct RandomSeq {
    table: Vec<i32>,
    past: usize,
    history: usize,
    candidates: usize,
    live_page: i32,
}

impl RandomSeq {
    /// Some, whose candidates have pages one after the other.
    fn some(random: &mut SplitMix, seqs: usize, page_tokens: usize) -> Vec<RandomSeq> {
        let mut live_page = 0;
        let made = (0..seqs).map(|_| {
            let (past, history) = (random.below(400), random.below(300));
            let candidates = random.below(300);
            let pages = TABLE_TOKENS.div_ceil(page_tokens);
            let table = (0..pages).map(|_| random.below(1000) as i32).collect();
            let first = live_page;
            live_page += candidates.div_ceil(page_tokens) as i32;
            RandomSeq { table, past, history, candidates, live_page: first }
        });
        made.collect()
    }

    /// What its rows are.
    fn rows(&self, page_tokens: usize, position_rows: usize) -> impl Iterator<Item = StepRow> {
        let RandomSeq { table, past, history, candidates, live_page } = self;
        let locals = 0..history + candidates;
        let seq = StepSeq { table, live_page: *live_page, past: *past, history_rows: *history };
        locals.map(move |local| row(&seq, local, page_tokens, position_rows))
    }
}

fn step_rows(
    ops: &Ops,
    random: &mut SplitMix,
    report: &mut Report,
    seqs: usize,
    position_rows: usize,
) {
    if report.skips("step_rows") {
        return;
    }
    let page_tokens = [1, 4, 32, 64][random.below(4)];
    let made = RandomSeq::some(random, seqs, page_tokens);
    let mut starts = vec![0];
    for seq in &made {
        starts.push(starts[starts.len() - 1] + (seq.history + seq.candidates) as i32);
    }
    // Some rows belong to nobody.
    let rows = 1 + starts[seqs] as usize + random.below(70);
    let (device, live_pages) = (ops.device(), 300usize.div_ceil(page_tokens));
    let of_each = |of: &dyn Fn(&RandomSeq) -> Vec<i32>, width: usize| {
        let numbers: Vec<i32> = made.iter().flat_map(of).collect();
        Placed::of(&device, &numbers, [seqs, width])
    };
    let tables = of_each(&|seq| seq.table.clone(), TABLE_TOKENS.div_ceil(page_tokens));
    let live = of_each(
        &|seq| (0..live_pages as i32).map(|page| seq.live_page + page).collect(),
        live_pages,
    );
    let past = of_each(&|seq| vec![seq.past as i32], 1);
    let history = of_each(&|seq| vec![seq.history as i32], 1);
    let placed_starts = Placed::of(&device, &starts, [seqs + 1]);
    let [mut row_seqs, mut slots, mut positions] =
        [(); 3].map(|()| Placed::poisoned(&device, DType::I32, [rows]));
    let mut spans = Placed::poisoned(&device, DType::I32, [rows, 4]);
    ops.step_rows(&StepRowsArgs {
        block_tables: tables.view(),
        live_tables: live.view(),
        past_tokens: past.view().reshape([seqs]),
        live_starts: placed_starts.view(),
        history_rows: history.view().reshape([seqs]),
        page_tokens,
        position_rows,
        row_seqs: row_seqs.view_mut(),
        commit_slots: slots.view_mut(),
        spans: spans.view_mut(),
        positions: positions.view_mut(),
    });
    let of_seq = |(number, seq): (usize, &RandomSeq)| {
        let rows: Vec<_> = seq.rows(page_tokens, position_rows).collect();
        rows.into_iter().map(move |row| (number as i32, row))
    };
    let mut want: Vec<(i32, StepRow)> = made.iter().enumerate().flat_map(of_seq).collect();
    let position = if position_rows == 0 { -1 } else { 0 };
    want.resize(rows, (-1, StepRow { slot: 0, span: [0; 4], position }));
    let numbers = [row_seqs, slots, positions, spans].map(|placed| placed.to_ids());
    let got: Vec<(i32, StepRow)> = (0..rows)
        .map(|at| {
            let [row_seqs, slots, positions, spans] = &numbers;
            let span = [0, 1, 2, 3].map(|word| spans[4 * at + word]);
            (row_seqs[at], StepRow { slot: slots[at], span, position: positions[at] })
        })
        .collect();
    let case = format!("{rows} rows of {seqs}, pages of {page_tokens}, {position_rows} positions");
    report.compare_exactly("step_rows", case, &got, &want);
}
