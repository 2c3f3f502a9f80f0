//! Ranking with checkpoints of the originals: the scores of our own folder, bit for bit.

use terrace_engine::DeviceChoice;
use terrace_engine::rank::{RankConfig, RankHandle, RankSetup, RankSource};
use terrace_kernels::Compute;
use terrace_model::hstu::checkpoints::HstuCheckpoint;
use terrace_model::hstu::recsys_args::{RecsysArgs, UnknownKeys};
use terrace_model::hstu::{HstuFiles, UvqkOrder};
use terrace_testkit::{Rng, TinyRanker};

use crate::ranking::{config, grow, rank, request};

fn engine(files: &HstuFiles, compute: Compute) -> RankHandle {
    let config =
        RankConfig { f32: compute == Compute::F32, device: DeviceChoice::Cpu, ..config(60, 8) };
    RankSetup { source: RankSource::Files(files), config }.start().expect("the model starts")
}

#[test]
fn checkpoints_of_recsys_rank_as_our_own_folder() {
    let [narrow, _] = TinyRanker::with_mlps(21);
    for (seed, model) in [(21, narrow), (22, TinyRanker::new(22))] {
        for (layout, compute) in
            [(UvqkOrder::Blocked, Compute::F32), (UvqkOrder::PerHead, Compute::Fast)]
        {
            let own = HstuFiles::open(&model.path()).expect("our folder");
            let folder = tempfile::tempdir().expect("a folder");
            let written = HstuCheckpoint::of_files(&own).with_layout(layout).expect("reordered");
            written.write_recsys(folder.path(), None, &mut |_| {}).expect("it is written");
            let gin = folder.path().join("config.gin");
            let (args, _) = RecsysArgs::open(&gin, UnknownKeys::Refuse).expect("a gin file");
            let theirs = HstuFiles::open_recsys(&args, folder.path()).expect("it opens");
            let engines = [&own, &theirs].map(|files| engine(files, compute));
            let mut rng = Rng::new(seed);
            let mut asked = request(&mut rng, "anna", 3, 7);
            for _ in 0..3 {
                let [own, theirs] = engines.each_ref().map(|engine| {
                    let logits = rank(engine, &asked).expect("ranks").logits;
                    logits.into_iter().map(f32::to_bits).collect::<Vec<_>>()
                });
                assert_eq!(own, theirs, "{layout:?}");
                grow(&mut rng, &mut asked, 9);
            }
        }
    }
}
