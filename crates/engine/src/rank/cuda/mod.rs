//! Ranking on a GPU.

mod cuda_rank_executor;
mod rank_form;
mod rank_graphs;

pub(super) use cuda_rank_executor::CudaRankExecutor;
