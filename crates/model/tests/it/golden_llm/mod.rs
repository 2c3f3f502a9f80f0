//! The decoder against the original implementations: every case of the `llm` set, through pages of
//! several sizes, in whole and chunked prompts, alone and among others.

mod case;
mod paged_run;
mod smollm2;

use std::path::Path;

use terrace_kernels::{CpuLevel, CpuOptions, Ops};
use terrace_model::Error;

use case::Case;
use paged_run::PagedRun;

/// What the data's README grants f32 engines; logits reach about 12.
const TOLERANCE: f32 = 2e-3;

/// How a prompt reaches the decoder.
#[derive(Clone, Copy, Debug)]
struct Feeding {
    page_tokens: usize,
    /// Most tokens of one sequence in one step.
    chunk: usize,
}

#[test]
fn golden_llm_logits_and_greedy_ids() {
    let mut ran = 0;
    for (name, folder) in terrace_testkit::golden_cases("llm") {
        match case_runs(&name, &folder) {
            Ok(()) => {
                println!("golden llm: {name} ok");
                ran += 1;
            }
            Err(Error::Unsupported(what)) => {
                println!("golden llm: {name} skipped, its family is not built yet: {what}");
            }
            Err(error) => panic!("golden llm: {name}: {error}"),
        }
    }
    assert!(ran > 0, "no golden case could be run");
}

/// Both styles of configuration must give the same model.
fn case_runs(name: &str, folder: &Path) -> Result<(), Error> {
    for config in Case::config_files(folder) {
        case_agrees(name, &Case::open(folder, &config)?);
    }
    Ok(())
}

fn case_agrees(name: &str, case: &Case) {
    let all: Vec<usize> = (0..case.prompts.len()).collect();
    for level in CpuLevel::available() {
        let ops = Ops::cpu(CpuOptions { threads: 2, level: Some(level) }).expect("available");
        if level != CpuLevel::detect() {
            let feeding = Feeding { page_tokens: 16, chunk: 7 };
            prompts_agree(name, case, &ops, feeding, &all);
            continue;
        }
        for page_tokens in [1, 16, 64] {
            for chunk in [usize::MAX, 7] {
                let feeding = Feeding { page_tokens, chunk };
                for prompt in 0..case.prompts.len() {
                    prompts_agree(name, case, &ops, feeding, &[prompt]);
                }
                prompts_agree(name, case, &ops, feeding, &all);
            }
        }
    }
}

/// Runs the given prompts side by side to the end of their greedy continuations.
fn prompts_agree(name: &str, case: &Case, ops: &Ops, feeding: Feeding, prompts: &[usize]) {
    let length = |&prompt: &usize| {
        let prompt = &case.prompts[prompt];
        prompt.input_ids.len() + prompt.greedy_ids.len()
    };
    let longest = prompts.iter().map(length).max().expect("a prompt");
    let decoder = case.decoder(ops);
    let mut run = PagedRun::new(&decoder, ops, feeding.page_tokens, longest, prompts.len());
    let mut texts: Vec<Vec<u32>> =
        prompts.iter().map(|&prompt| case.prompts[prompt].input_ids.clone()).collect();
    while let Some(logits) = run.step(&texts, feeding.chunk, |seq| length(&prompts[seq])) {
        for (seq, position, row) in logits {
            let prompt = &case.prompts[prompts[seq]];
            let place = format!("{name} {feeding:?} prompt {} position {position}", prompts[seq]);
            row_agrees(&place, &row, prompt.expected(position));
            if position + 1 == texts[seq].len() {
                let greedy = argmax(&row);
                let made = texts[seq].len() - prompt.input_ids.len();
                assert_eq!(greedy, prompt.greedy_ids[made], "{place}: greedy id {made}");
                texts[seq].push(greedy);
            }
        }
    }
}

#[track_caller]
fn row_agrees(place: &str, row: &[f32], expected: &[f32]) {
    assert_eq!(row.len(), expected.len(), "{place}");
    for (token, (found, wanted)) in row.iter().zip(expected).enumerate() {
        let off = (found - wanted).abs();
        assert!(off <= TOLERANCE, "{place}: token {token} is {found}, expected {wanted}");
    }
}

fn argmax(row: &[f32]) -> u32 {
    let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.map(|(token, _)| token as u32).expect("a vocabulary")
}
