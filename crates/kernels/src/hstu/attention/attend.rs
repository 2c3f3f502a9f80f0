//! HSTU attention on the CPU: the arguments checked, cut into tasks and run.

use terrace_device::SharedRows;

use super::attend_args::{HstuAttendArgs, HstuKv};
use super::check::check_shapes;
use super::layer::Layer;
use super::row_span::RowSpan;
use super::step_size::HstuStepSize;
use crate::cpu::cpu_ctx::CpuCtx;
use crate::elementwise::cast;
use crate::hstu::activate::{self, Pointwise};
use crate::pages::commit::commit;
use crate::pages::page_layout::PageLayout;

/// Elements of one token's live keys and values.
fn live_widths(layout: &PageLayout) -> [usize; 2] {
    [layout.key_dim, layout.value_dim].map(|dim| layout.kv_heads * layout.live_row(dim))
}

/// Bytes of the live keys and values of so many tokens.
pub(crate) fn scratch_bytes(layout: &PageLayout, tokens: usize) -> usize {
    tokens * live_widths(layout).iter().sum::<usize>() * layout.dtype.bytes()
}

pub(crate) fn attend(ctx: &CpuCtx, args: HstuAttendArgs<'_>, kv: &mut HstuKv<'_>) {
    check(&args, kv);
    let HstuAttendArgs { mut q, mut k, mut v, layer, scale, bias, row_scale, scratch, .. } = args;
    let (mut out, [tokens, _], heads) = (args.out, q.dims(), kv.layout.kv_heads);
    if args.activates {
        for part in [&mut q, &mut k, &mut v] {
            activate::activate(ctx, part.reborrow(), Pointwise::Silu);
        }
    }
    let widths = live_widths(&kv.layout);
    let live = scratch.first(scratch_bytes(&kv.layout, tokens));
    let live = live.cast_bytes(kv.layout.dtype, [tokens, widths.iter().sum()]);
    let [live_k, live_v] = live.split_columns(widths);
    let (mut live_k, mut live_v) = (live_k.split_heads(heads), live_v.split_heads(heads));
    cast::cast(ctx, k.as_view().split_heads(heads), live_k.reborrow());
    cast::cast(ctx, v.as_view().split_heads(heads), live_v.reborrow());
    let live = [live_k.as_view(), live_v.as_view()];
    let out = SharedRows::new(&mut out);
    let q = q.as_view().split_heads(heads);
    Layer::new(ctx, kv, live, q, layer, &out).run(args.rows, scale, bias, row_scale);
    let slots = kv.commit_slots.as_slice::<i32>().iter().enumerate();
    // Those of candidates are negative: no slot keeps them.
    let kept = slots.filter_map(|(token, slot)| Some((token, usize::try_from(*slot).ok()?)));
    commit(live, &kv.layout, layer, kept, kv.pages.reborrow());
}

fn check(args: &HstuAttendArgs<'_>, kv: &HstuKv<'_>) {
    let HstuStepSize { tokens, seqs, table_pages } = check_shapes(args, kv);
    let PageLayout { key_dim, value_dim, page_tokens, .. } = kv.layout;
    let widest = key_dim.max(value_dim);
    assert!(widest <= CpuCtx::MAX_HEAD_DIM, "heads of {widest}, at most {}", CpuCtx::MAX_HEAD_DIM);
    let [pages, _] = kv.pages.dims();
    let starts = kv.live_starts.as_slice::<i32>();
    assert_eq!((starts[0], starts[seqs] as usize), (0, tokens), "ends of live_starts");
    assert!(starts.is_sorted(), "live_starts {starts:?} go back");
    for seq in 0..seqs {
        let past = kv.past_tokens.as_slice::<i32>()[seq] as usize;
        let history = kv.history_rows.as_slice::<i32>()[seq] as usize;
        let live = (starts[seq + 1] - starts[seq]) as usize;
        assert!(history <= live, "{history} of {live} live rows are history");
        let used = past.div_ceil(page_tokens);
        assert!(used <= table_pages, "{past} past tokens in {table_pages} pages");
        for &page in &kv.block_tables.row::<i32>(seq)[..used] {
            assert!((page as usize) < pages, "page {page} of {pages} in the table of {seq}");
        }
        for token in starts[seq] as usize..starts[seq + 1] as usize {
            let span = RowSpan::of(kv.spans.row(token));
            let inside =
                span.history.end <= past + history && span.candidates.end <= live - history;
            assert!(inside, "row {token} sees {span:?} of {past} + {history} and {live}");
        }
    }
    for &slot in kv.commit_slots.as_slice::<i32>() {
        let known = slot < 0 || (slot as usize) < pages * page_tokens;
        assert!(known, "slot {slot} of {}", pages * page_tokens);
    }
}
