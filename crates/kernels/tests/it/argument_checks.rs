//! What a caller gets wrong is caught before any memory is touched.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use terrace_device::{Buffer, DType, View, ViewMut};
use terrace_kernels::conformance::{KvCase, KvSpec};
use terrace_kernels::random::SplitMix;
use terrace_kernels::{
    Compute, CpuOps, CpuOptions, Matrix, PageLayout, PagedKv, Projection, WeightFormat, unpack_row,
};

/// Runs what must panic and returns its message.
#[track_caller]
fn refusal(run: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("it was not caught");
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic.downcast::<&str>().expect("a message").to_string(),
    }
}

fn case(seqs: Vec<[usize; 2]>) -> KvCase {
    let layout = PageLayout {
        layers: 1,
        kv_heads: 1,
        page_tokens: 4,
        key_dim: 8,
        value_dim: 8,
        dtype: DType::F32,
    };
    let spec = KvSpec { layout, layer: 0, heads: 1, window: None, seqs, prompt_tokens: 0 };
    KvCase::new(spec, &mut SplitMix::new(1))
}

#[test]
fn a_sound_step_passes() {
    case(vec![[7, 2], [0, 1], [4, 9]]).paged_kv().check();
}

#[test]
fn a_slot_that_is_read_may_not_be_written() {
    let mut case = case(vec![[7, 2]]);
    let kv = case.paged_kv();
    let first_read = kv.block_tables.as_slice::<i32>()[0] * 4;
    let slots = [first_read, kv.commit_slots.as_slice::<i32>()[1]];
    let kv = PagedKv { commit_slots: View::of(&slots, [2]), ..kv };
    assert_eq!(
        refusal(|| kv.check()),
        format!("slot {first_read} is read and written in one step")
    );
}

#[test]
fn a_slot_takes_one_row() {
    let mut case = case(vec![[7, 2]]);
    let kv = case.paged_kv();
    let slot = kv.commit_slots.as_slice::<i32>()[0];
    let slots = [slot, slot];
    let kv = PagedKv { commit_slots: View::of(&slots, [2]), ..kv };
    assert_eq!(refusal(|| kv.check()), format!("slot {slot} takes two rows"));
}

#[test]
fn tables_stay_inside_the_pages() {
    let mut case = case(vec![[7, 2]]);
    let kv = case.paged_kv();
    for bad in [-1, 1000] {
        let mut table = kv.block_tables.as_slice::<i32>().to_vec();
        table[1] = bad;
        let shape = [1, table.len()];
        let pages = kv.pages.as_view();
        let mut copy = pages.as_slice::<u8>().to_vec();
        let kv = PagedKv {
            layout: kv.layout,
            pages: ViewMut::of(&mut copy, pages.dims::<2>()),
            block_tables: View::of(&table, shape),
            past_tokens: kv.past_tokens,
            live_starts: kv.live_starts,
            commit_slots: kv.commit_slots,
            singles: kv.singles,
            chunk_tiles: kv.chunk_tiles,
            row_seqs: kv.row_seqs,
        };
        assert!(refusal(|| kv.check()).starts_with(&format!("page {bad} of")));
    }
}

#[test]
fn live_starts_do_not_go_back() {
    let mut case = case(vec![[7, 2], [0, 1], [4, 9]]);
    let starts = [0, 3, 2, 12];
    let kv = PagedKv { live_starts: View::of(&starts, [4]), ..case.paged_kv() };
    assert_eq!(refusal(|| kv.check()), "live_starts [0, 3, 2, 12] go back");
}

#[test]
fn rows_that_do_not_fill_blocks_are_refused() {
    let refused = refusal(|| unpack_row(WeightFormat::Q4_1, &[0; 20], &mut [0.0; 31]));
    assert!(refused.contains("bytes of 31 Q4_1 weights"), "{refused}");
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let ops = CpuOps::new(CpuOptions { threads: 1, level: None, compute: Compute::F32 }).unwrap();
    let (x, weight, mut out) = (vec![0f32; 12], vec![0f32; 4], vec![0f32; 12]);
    let refused = refusal(|| {
        let out = ViewMut::of(&mut out, [4, 3]);
        ops.rms_norm(View::of(&x, [3, 4]), View::of(&weight, [4]), 1e-5, out);
    });
    assert!(refused.contains("out of rms_norm"), "{refused}");
}

#[test]
fn nothing_to_do_is_no_error() {
    let ops = CpuOps::new(CpuOptions { threads: 2, level: None, compute: Compute::F32 }).unwrap();
    let weight = Matrix::new(WeightFormat::F32, 3, 4, Arc::new(Buffer::zeroed(48, "w").unwrap()));
    let out = ViewMut::of::<f32>(&mut [], [0, 3]);
    let part = Projection { weight: &weight, bias: None, out };
    ops.project(View::of::<f32>(&[], [0, 4]), &mut [part]);
    assert!(case(vec![]).attend(&ops).is_empty());
    assert_eq!(case(vec![[3, 0], [5, 1], [0, 0]]).attend(&ops).len(), 8);
}

#[test]
fn a_table_may_be_shared_among_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<CpuOps>();
    shared::<PagedKv<'_>>();
}
