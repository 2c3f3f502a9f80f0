//! All golden models, layers and small networks of a folder.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use terrace_golden::{GoldenFolder, GoldenTensors, SetFindings};
use terrace_kernels::Ops;

use super::check_layers::check_layers;
use super::model_files::ModelFiles;
use super::model_run::{ModelRun, RunFindings};
use crate::ctr::CtrModel;
use crate::error::Error;

/// What f32 arithmetic may be from double precision in pooled vectors and probabilities.
const TOLERANCE: f32 = 1e-6;
/// The same for numbers before the sigmoid.
const LOGIT_TOLERANCE: f32 = 5e-6;

#[derive(Deserialize)]
struct ModelAbout {
    name: String,
    cases: Vec<CaseAbout>,
}

#[derive(Deserialize)]
struct CaseAbout {
    file: String,
}

struct Findings {
    pooled: SetFindings,
    logits: SetFindings,
    outputs: SetFindings,
    /// The same from weights by name.
    by_name: SetFindings,
}

/// What was found of pooled vectors, logits and probabilities of all models, and of layers and
/// small networks; nothing where the folder has none of them.
pub fn check_folder(folder: &Path, ops: &Ops) -> Result<Vec<SetFindings>, Error> {
    let manifest = GoldenFolder::open(folder)?;
    let models = manifest.entries().find(|(name, _)| *name == "models").map(|(_, models)| models);
    let mut findings = Findings {
        pooled: SetFindings::new("pooled", TOLERANCE),
        logits: SetFindings::new("logits", LOGIT_TOLERANCE),
        outputs: SetFindings::new("outputs", TOLERANCE),
        by_name: SetFindings::new("by name", 0.0),
    };
    for model in models.and_then(Value::as_array).into_iter().flatten() {
        let about = ModelAbout::deserialize(model).map_err(|error| Error::Malformed {
            path: folder.join("manifest.json"),
            problem: error.to_string(),
        })?;
        let files = ModelFiles::open(&folder.join(&about.name), &about.name)?;
        check_model(&files, &about, folder, ops, &mut findings)?;
    }
    let Findings { pooled, logits, outputs, by_name } = findings;
    let layers = check_layers(folder, &manifest, ops)?;
    let sets = [pooled, logits, outputs, by_name].into_iter().chain(layers);
    Ok(sets.filter(|set| set.cases > 0).collect())
}

fn check_model(
    files: &ModelFiles,
    about: &ModelAbout,
    folder: &Path,
    ops: &Ops,
    findings: &mut Findings,
) -> Result<(), Error> {
    let network = files.network()?;
    let weights = files.flat_weights(&network)?;
    let tables = files.tables(&network.inputs().tables)?;
    let run = |model| ModelRun { ops, model, tables: &tables };
    let plain = run(CtrModel::place(ops, &network, &weights)?);
    let named = run(CtrModel::place(ops, &network, &files.named_weights(&network)?)?);
    let logits = files.network_of_logits()?;
    let logits = logits.map(|network| CtrModel::place(ops, &network, &weights)).transpose()?;
    let logits = logits.map(run);
    for case in &about.cases {
        let request = GoldenTensors::read(&folder.join(&files.name).join(&case.file))?;
        let at = |what: &str| format!("{} {}: {what}", files.name, case.file);
        let found = plain.run(&request)?;
        check_pooled(&plain, &found, &request, &mut findings.pooled, &at)?;
        let want = numbers(&request, "OUTPUT0")?;
        findings.outputs.compare(&found.outputs, &want, || at("OUTPUT0"));
        findings.outputs.cases += 1;
        let by_name = named.run(&request)?.outputs;
        findings.by_name.compare_exactly(&by_name, &found.outputs, || at("OUTPUT0"));
        findings.by_name.cases += 1;
        if let Some(logits) = logits.as_ref().filter(|_| request.has("logit")) {
            let (found, want) = (logits.run(&request)?.outputs, numbers(&request, "logit")?);
            findings.logits.compare(&found, &want, || at("logit"));
            findings.logits.cases += 1;
        }
    }
    Ok(())
}

/// Small requests come with what their keys are pooled to.
fn check_pooled(
    run: &ModelRun<'_>,
    found: &RunFindings,
    request: &GoldenTensors,
    findings: &mut SetFindings,
    at: &dyn Fn(&str) -> String,
) -> Result<(), Error> {
    for (table, pooled) in run.model.inputs().tables.iter().zip(&found.pooled) {
        let name = format!("combined.{}", table.name);
        if request.has(&name) {
            findings.compare(pooled, &numbers(request, &name)?, || at(&name));
            findings.cases += 1;
        }
    }
    Ok(())
}

/// In f32, of numbers in either precision.
fn numbers(request: &GoldenTensors, name: &str) -> Result<Vec<f32>, Error> {
    match request.f32s(name) {
        Ok(numbers) => Ok(numbers.to_vec()),
        Err(_) => Ok(request.f64s(name)?.iter().map(|number| *number as f32).collect()),
    }
}
