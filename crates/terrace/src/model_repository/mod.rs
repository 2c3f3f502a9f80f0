//! Models in the folders of Triton's repositories: which there are, what their files are, and how
//! they are put together to be served.

mod dense_part;
mod deployment;
mod instance_places;
mod model_parameters;
mod model_tables;
mod object_repository;
mod repository_folder;
mod repository_models;
mod repository_place;
mod version_files;
mod version_loader;

pub use repository_models::RepositoryModels;
pub use repository_place::RepositoryPlace;
pub use version_loader::{VersionLoader, WantedVersion};
