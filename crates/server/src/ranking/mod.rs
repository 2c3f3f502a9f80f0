//! Generative recommenders over HTTP: candidates ranked, and items found, after users' histories,
//! and what is kept of users.
//!
//! A caller's users are its own: the key that a request comes with is the tenant of its users.

pub mod events;
pub mod kv_operations;
pub mod rank;
mod rank_fields;
mod ranking_service;
pub mod reload;
pub mod retrieve;
mod user_path;
mod user_query;
pub mod users;

pub use ranking_service::{RankedModel, RankingService};
