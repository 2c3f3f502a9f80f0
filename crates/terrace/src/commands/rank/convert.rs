//! `terrace rank convert`: a recommender from one form of checkpoint to another.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use terrace_model::NewFolder;
use terrace_model::hstu::checkpoints::{GenerativeArgs, HstuCheckpoint};
use terrace_model::hstu::recsys_args::RecsysArgs;
use terrace_model::hstu::{HstuFiles, UvqkOrder};

use super::gin_choice::GinChoice;
use crate::progress;

/// Convert a recommender's checkpoint from one form to another.
///
/// Forms are our own folder (config.json and model.safetensors), the checkpoint folder of NVIDIA's
/// recsys-examples (torch_module and dynamicemb_module) and the checkpoint file of Meta's
/// generative-recommenders. Nothing of a file is executed. What the other form cannot say is
/// refused by name.
#[derive(Args, Debug)]
#[command(after_long_help = "Examples:
  terrace rank convert checkpoints/iter550 models/kuairand --gin_config_file kuairand_1k.gin
  terrace rank convert ckpts/ml-1m_ep100 models/ml-1m --gin_config_file hstu.gin
  terrace rank convert models/kuairand checkpoints/new --to recsys-examples

Checkpoints that were written here have their gin file in their folder, as config.gin. Written as
recsys-examples, tables are named and kept as the gin file says.")]
pub struct ConvertArgs {
    /// The checkpoint's folder, or file.
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// The folder to write; it must not be there.
    #[arg(value_name = "OUT")]
    output: PathBuf,

    #[command(flatten)]
    gin: GinChoice,

    /// What OUT is. Left out: our own folder.
    #[arg(long, value_name = "FORM")]
    to: Option<Form>,

    /// In which order the projections' outputs are written: U, V, Q and K each of all heads, or
    /// head by head. Left out: as they are read.
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<Layout>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Safetensors,
    RecsysExamples,
    GenerativeRecommenders,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Layout {
    Blocked,
    #[value(name = "per_head", alias = "per-head")]
    PerHead,
}

/// The file of generative-recommenders in a folder that is written here.
const OWN_GENERATIVE: &str = "checkpoint.pt";

pub fn run(args: &ConvertArgs) -> Result<()> {
    let to = args.to.unwrap_or(Form::Safetensors);
    let (checkpoint, recsys) = args.read()?;
    let checkpoint = match args.layout {
        Some(Layout::Blocked) => checkpoint.with_layout(UvqkOrder::Blocked)?,
        Some(Layout::PerHead) => checkpoint.with_layout(UvqkOrder::PerHead)?,
        None => checkpoint,
    };
    let folder = NewFolder::create(&args.output)?;
    let bytes = checkpoint.bytes();
    let bar = progress::bytes("converting", bytes);
    let mut written = |bytes: usize| bar.inc(bytes as u64);
    match to {
        Form::Safetensors => checkpoint.write_terrace(folder.path(), &mut written)?,
        Form::RecsysExamples => {
            checkpoint.write_recsys(folder.path(), recsys.as_ref(), &mut written)?;
        }
        Form::GenerativeRecommenders => {
            if args.layout == Some(Layout::PerHead) {
                bail!("generative-recommenders has one layout, blocked; leave --layout out");
            }
            checkpoint.write_generative(folder.path(), &mut written)?;
        }
    }
    bar.finish_and_clear();
    folder.finish()?;
    println!("{}: {bytes} bytes of tensors", args.output.display());
    Ok(())
}

impl ConvertArgs {
    /// The model, and the arguments of recsys-examples if they are known.
    fn read(&self) -> Result<(HstuCheckpoint, Option<RecsysArgs>)> {
        let what = || format!("cannot read the checkpoint {}", self.input.display());
        if HstuFiles::is_in(&self.input) {
            let files = HstuFiles::open(&self.input).with_context(what)?;
            let args = self.gin.gin_config_file.as_deref().map(|gin| self.gin.recsys_args(gin));
            return Ok((HstuCheckpoint::of_files(&files), args.transpose()?));
        }
        if self.input.join("torch_module").is_dir() {
            let args = self.gin.recsys_args(&self.gin.file(&self.input)?)?;
            for note in args.inference_notes()? {
                eprintln!("note: {note}");
            }
            let checkpoint = HstuCheckpoint::from_recsys(&args, &self.input).with_context(what)?;
            return Ok((checkpoint, Some(args)));
        }
        let (file, folder) = match self.input.is_dir() {
            true => (self.input.join(OWN_GENERATIVE), self.input.clone()),
            false => (self.input.clone(), self.input.with_file_name("")),
        };
        if !file.is_file() {
            bail!(
                "{} is none of: a folder with config.json, a folder with torch_module, a file of \
                 PyTorch",
                self.input.display()
            );
        }
        let gin = self.gin.file(&folder)?;
        let args = GenerativeArgs::open(&gin).with_context(|| format!("in {}", gin.display()))?;
        let checkpoint = HstuCheckpoint::from_generative(&args, &file).with_context(what)?;
        Ok((checkpoint, None))
    }
}
