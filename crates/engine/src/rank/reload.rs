//! Another checkpoint in an engine that runs.
//!
//! It is loaded beside the one that is served, by ops of its own, which on a GPU have a stream of
//! their own. Then requests that are under way end, with the old one; those that come meanwhile are
//! held for that long, and the first step after it is the new one's.

use std::sync::PoisonError;

use terrace_cache::users::UserKey;
use terrace_model::hstu::HstuFiles;

use super::loaded_model::LoadedModel;
use super::rank_command::Command;
use super::rank_error::RankError;
use super::rank_front::RankFront;
use super::rank_handle::RankHandle;
use super::rank_setup;
use super::rank_source::RankSource;
use super::reloaded::{ModelChange, Reloaded};
use super::replacement::Replacement;
use crate::error::Error;

impl RankHandle {
    /// Serves the checkpoint in these files from now on. Loads it first, on this thread, while
    /// requests go on; after an error the one before is served still.
    pub fn reload(&self, files: &HstuFiles) -> Result<Reloaded, Error> {
        // One after the other.
        let _guard = self.shared.reloads.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.front();
        if files.config != before.model {
            let difference = "its config.json differs; start it as a model of its own";
            return Err(Error::Reload(difference.into()));
        }
        let source = RankSource::of(files, before.features.as_ref());
        let ops = rank_setup::loading_ops(&self.shared.config)?;
        let loaded = LoadedModel::load(&source, &ops, self.shared.config.residence())?;
        let change = match (loaded.identity, before.identity) {
            (new, old) if new.layers != old.layers => ModelChange::Layers,
            (new, old) if new.tables != old.tables => ModelChange::Tables,
            _ => {
                let generation = before.generation;
                let to_rewarm = Vec::new();
                return Ok(Reloaded { change: ModelChange::None, generation, to_rewarm });
            }
        };
        let (pages, generation) = (before.pages.clone(), before.generation + 1);
        let front = RankFront::new(&loaded, &self.shared.config, pages, generation);
        let replacement = Box::new(Replacement { loaded, front, change });
        let answer = self.ask_blocking(|reply| Command::Replace(replacement, reply));
        answer.map_err(|error| Error::Reload(error.to_string()))?.inspect(|reloaded| {
            let Reloaded { change, generation, .. } = reloaded;
            tracing::info!(?change, generation, "another checkpoint is served");
        })
    }

    /// Computes histories again that were cached before a reload, one after the other, behind all
    /// requests; how many.
    pub async fn rewarm(&self, users: Vec<(UserKey, Vec<i64>)>) -> Result<usize, RankError> {
        // The times that these models look at are not kept.
        if self.front().has_times {
            return Ok(0);
        }
        let mut warmed = 0;
        for (user, ids) in users {
            // What was computed meanwhile is newer.
            if 0 < self.span(user.clone()).await?.length {
                continue;
            }
            let made = |front: &RankFront| {
                let mut job = front.job_of_history(user.clone(), ids.clone());
                job.priority = i32::MIN;
                Ok(job)
            };
            match self.run(made).await {
                Ok(_) => warmed += 1,
                Err(RankError::Stopped) => return Err(RankError::Stopped),
                // The user has other requests, or there is no room: it is computed when it is
                // asked for.
                Err(error) => tracing::debug!(%user, %error, "not computed ahead"),
            }
        }
        Ok(warmed)
    }
}
