//! Ranking on a GPU.

mod cuda_item_search;
mod cuda_rank_executor;
mod cuda_rows;
mod cuda_step_rows;
mod cuda_times;
mod layer_marks;
mod rank_form;

pub(super) use cuda_rank_executor::CudaRankExecutor;
