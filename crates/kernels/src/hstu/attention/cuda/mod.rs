//! HSTU attention on an NVIDIA GPU.
//!
//! First `hstu_store.cu` writes the step's keys and values into their slots, those of candidates
//! into pages of the scratch, so that all keys are found in pages. Then bf16 rows go to Hopper's
//! tensor cores, `hstu_attention_hopper.cu`, where pages of fp8 numbers are widened before; all
//! else goes to `hstu_attention_plain.cu`.
//!
//! Keys are divided among blocks where rows are too few for the GPU, unless results may not depend
//! on the batch.

mod hopper;
mod page_side;
mod plain;
mod row_factors;
mod scratch;
mod store;
mod widen;

use std::sync::{Arc, OnceLock};

use terrace_device::DType;
use terrace_device::cuda::CudaDevice;

use super::attend_args::{HstuAttendArgs, HstuKv, HstuTileViews};
use super::check::check_shapes;
use super::row_tiles::{HstuTiles, HstuTiling};
use super::step_size::HstuStepSize;
use crate::error::Error;
use crate::pages::page_layout::PageLayout;
use hopper::{HopperKernels, HopperPages, PageMaps};
use page_side::LayerSides;
use plain::PlainKernel;
use scratch::HstuScratch;
use store::StoreKernel;
use widen::WidenKernels;

pub(crate) struct HstuAttentionKernels {
    device: Arc<CudaDevice>,
    activation: DType,
    deterministic: bool,
    on_hopper: bool,
    store: StoreKernel,
    plain: PlainKernel,
    /// For each width of heads; those of a model are loaded at start, tests come with others.
    hopper: [OnceLock<HopperKernels>; HopperKernels::HEAD_DIMS.len()],
    widen: OnceLock<WidenKernels>,
}

impl HstuAttentionKernels {
    pub(crate) fn load(
        device: &Arc<CudaDevice>,
        activation: DType,
        deterministic: bool,
        on_hopper: bool,
    ) -> Result<Self, Error> {
        Ok(HstuAttentionKernels {
            device: Arc::clone(device),
            activation,
            deterministic,
            on_hopper,
            store: StoreKernel::load(device, activation)?,
            plain: PlainKernel::load(device, activation)?,
            hopper: Default::default(),
            widen: OnceLock::new(),
        })
    }

    /// Loads what heads of these widths need, and takes the memory for it.
    pub(crate) fn prepare(&self, key_dim: usize, value_dim: usize) -> Result<(), Error> {
        let most = PlainKernel::MAX_HEAD_DIM;
        if most < key_dim.max(value_dim) {
            return Err(Error::HstuHeadsOnGpu { key_dim, value_dim, most });
        }
        let has_tensor_cores = self.on_hopper && self.activation == DType::Bf16;
        if has_tensor_cores && key_dim == value_dim {
            self.load_hopper(key_dim)?;
        }
        Ok(())
    }

    /// How steps over such pages are best divided.
    pub(crate) fn tiling(&self, layout: &PageLayout) -> HstuTiling {
        let hopper = match self.has_tensor_cores(layout) {
            true => self.load_hopper(layout.key_dim).expect("PTX that is built in"),
            false => None,
        };
        hopper.map_or(HstuTiling::NONE, |kernels| kernels.tiling(layout.kv_heads))
    }

    pub(crate) fn scratch_bytes(&self, layout: &PageLayout, size: HstuStepSize) -> usize {
        HstuScratch::new(layout, size, self.widens(layout)).bytes()
    }

    pub(crate) fn attend(&self, args: &HstuAttendArgs<'_>, kv: &HstuKv<'_>) {
        let size = check_shapes(args, kv);
        self.check(args, kv, size);
        let scratch = args.scratch.device_address();
        let [_, page_bytes] = kv.pages.dims();
        let kept = LayerSides::new(kv.pages.device_address(), page_bytes, &kv.layout, args.layer);
        if self.attend_on_hopper(args, kv, size, kept).is_none() {
            let live = HstuScratch::new(&kv.layout, size, false).live_sides(scratch);
            self.store.launch(args, kv, kept, live, false);
            self.plain.launch(args, kv, kept, live);
        }
    }

    /// None, and nothing done, where the tensor cores do not take such a step.
    fn attend_on_hopper(
        &self,
        args: &HstuAttendArgs<'_>,
        kv: &HstuKv<'_>,
        size: HstuStepSize,
        kept: LayerSides,
    ) -> Option<()> {
        if !self.has_tensor_cores(&kv.layout) || args.bias.is_some() {
            return None;
        }
        let (start, widens) = (args.scratch.device_address(), self.widens(&kv.layout));
        let scratch = HstuScratch::new(&kv.layout, size, widens);
        let ([kept_pages, _], live) = (kv.pages.dims(), scratch.live_sides(start));
        let mut pages = HopperPages {
            kept,
            kept_pages,
            tables: kv.block_tables.device_address(),
            live,
            live_pages: scratch.live_pages,
        };
        if let Some(wide) = &scratch.wide {
            pages.kept = scratch.wide_sides(start, wide);
            pages.kept_pages = wide.pages;
            pages.tables = scratch.wide_tables(start);
        }
        let maps = PageMaps::of(args, &kv.layout, &pages)?;
        if !self.rows_are_aligned(args, kept) {
            return None;
        }
        let hopper = self.load_hopper(kv.layout.key_dim).expect("PTX that is built in");
        self.store.launch(args, kv, kept, live, widens);
        if widens {
            let widen = self.load_widen().expect("PTX that is built in");
            widen.launch(kv, kept, pages.kept, pages.tables);
        }
        hopper?.launch(args, kv, &pages, &maps);
        Some(())
    }

    /// Whether keys and values can be brought to bf16 pages eight by eight.
    fn rows_are_aligned(&self, args: &HstuAttendArgs<'_>, kept: LayerSides) -> bool {
        let rows = [&args.k, &args.v];
        let are_aligned = rows.iter().all(|rows| {
            let stride = (rows.row_stride() * rows.dtype().bytes()) as u64;
            (rows.device_address() | stride).is_multiple_of(16)
        });
        are_aligned && kept.are_aligned()
    }

    fn has_tensor_cores(&self, layout: &PageLayout) -> bool {
        self.on_hopper && self.activation == DType::Bf16 && HopperKernels::suit(layout)
    }

    /// Whether fp8 pages become bf16 before they are read.
    fn widens(&self, layout: &PageLayout) -> bool {
        self.has_tensor_cores(layout) && layout.dtype != DType::Bf16
    }

    /// None where no kernel has heads of this width.
    fn load_hopper(&self, head_dim: usize) -> Result<Option<&HopperKernels>, Error> {
        let Some(index) = HopperKernels::HEAD_DIMS.iter().position(|dim| *dim == head_dim) else {
            return Ok(None);
        };
        self.load_widen()?;
        let place = &self.hopper[index];
        if place.get().is_none() {
            let kernels = HopperKernels::load(&self.device, head_dim, self.deterministic)?;
            // Another thread may have been quicker.
            let _ = place.set(kernels);
        }
        Ok(place.get())
    }

    fn load_widen(&self) -> Result<&WidenKernels, Error> {
        if self.widen.get().is_none() {
            let _ = self.widen.set(WidenKernels::load(&self.device)?);
        }
        Ok(self.widen.get().expect("it was just loaded"))
    }

    /// Panics unless the arrays are as kernels take them.
    fn check(&self, args: &HstuAttendArgs<'_>, kv: &HstuKv<'_>, size: HstuStepSize) {
        let HstuStepSize { tokens, seqs, .. } = size;
        let types = [args.q.dtype(), args.k.dtype(), args.v.dtype(), args.out.dtype()];
        assert!(types == [self.activation; 4], "types of attention: {types:?}");
        let PageLayout { key_dim, value_dim, .. } = kv.layout;
        let most = PlainKernel::MAX_HEAD_DIM;
        assert!(key_dim.max(value_dim) <= most, "heads of {key_dim} and {value_dim}");
        let [live_seqs, _] = kv.live_tables.dims();
        assert_eq!(live_seqs, seqs, "live_tables");
        for HstuTileViews { items, sums } in [kv.tiles, kv.candidate_tiles] {
            let ([_, item], [_, sum]) = (items.dims(), sums.dims());
            let words = [HstuTiles::ITEM_WORDS, HstuTiles::SUM_WORDS];
            assert_eq!([item, sum], words, "words of tiles");
        }
        assert_eq!(kv.row_seqs.dims(), [tokens], "row_seqs");
        let arrays = [
            kv.block_tables,
            kv.commit_slots,
            kv.spans,
            kv.live_tables,
            kv.row_seqs,
            kv.tiles.items,
        ];
        assert!(arrays.iter().all(|array| array.dtype() == DType::I32), "types of a step's arrays");
        // Tables, tiles and spans are read without regard to strides.
        let _: Vec<usize> = arrays.iter().map(|array| array.dense_bytes()).collect();
        let ([found], wanted) = (args.scratch.dims(), self.scratch_bytes(&kv.layout, size));
        assert!(wanted <= found, "attention works in {wanted} bytes, here are {found}");
    }
}
