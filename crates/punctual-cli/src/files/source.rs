//! The files that a command is given.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use punctual_file::{Mistakes, Set, Source};

use crate::exit::Failure;
use crate::output::{self, print_json, say_warning};

/// Files of schedules.
#[derive(Args, Clone, Debug)]
pub(crate) struct Files {
    /// Schedule file, directory with *.toml files, or `-` for stdin. May be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
}

impl Files {
    /// The texts.
    pub(crate) fn sources(&self) -> Result<Vec<Source>, Failure> {
        let mut sources = Vec::new();
        for path in &self.files {
            for file in each(path)? {
                sources.push(read_file(&file)?);
            }
        }
        Ok(sources)
    }

    /// The sets that they declare; whatever is wrong is told with its place.
    pub(crate) fn sets(&self, is_json: bool) -> Result<Vec<Set>, Failure> {
        let sets = punctual_file::read_beside(&self.sources()?, &beside)
            .map_err(|mistakes| mistaken(&mistakes, is_json))?;
        warnings(&sets).for_each(|warning| say_warning(&warning));
        Ok(sets)
    }

    /// What tells whether a file has changed: its name, size and time of change.
    pub(crate) fn mark(&self) -> Vec<(PathBuf, u64, Option<std::time::SystemTime>)> {
        let files = self.files.iter().flat_map(|path| each(path).unwrap_or_default());
        // What they read beside them is theirs.
        let files = files.flat_map(|file| {
            let source = (file != Path::new("-")).then(|| read_file(&file).ok()).flatten();
            let names = source.map(|source| punctual_file::beside(&source)).unwrap_or_default();
            let others: Vec<PathBuf> = names.iter().map(|name| next_to(&file, name)).collect();
            std::iter::once(file).chain(others)
        });
        let mark = |file: PathBuf| {
            let about = std::fs::metadata(&file).ok();
            let changed = about.as_ref().and_then(|about| about.modified().ok());
            (file, about.map_or(0, |about| about.len()), changed)
        };
        files.map(mark).collect()
    }
}

/// A file, or those of a directory in the order of their names.
fn each(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let unreadable = |error: std::io::Error| cannot_read(path, &error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|extension| extension == "toml") {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Failure::usage(format!(
            "no *.toml files in directory {}; pass a file or another directory",
            path.display()
        )));
    }
    Ok(files)
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot read {}: {error}", path.display()))
}

/// A file as it is.
pub(crate) fn read_file(path: &Path) -> Result<Source, Failure> {
    let name = path.to_string_lossy().into_owned();
    let text = match name.as_str() {
        "-" => {
            let mut text = String::new();
            std::io::stdin().lock().read_to_string(&mut text).map(|_| text)
        }
        _ => std::fs::read_to_string(path),
    };
    text.map(|text| Source::new(name, text)).map_err(|error| cannot_read(path, &error))
}

/// Reads a file that another names.
pub(crate) fn beside(source: &Source, name: &str) -> Result<String, String> {
    let file = next_to(Path::new(&source.path), name);
    std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
}

/// The warnings of sets, each with its place on one line.
pub(crate) fn warnings(sets: &[Set]) -> impl Iterator<Item = String> {
    let warnings = sets.iter().flat_map(|set| &set.warnings);
    warnings.map(|warning| format!("{}: {}", warning.place, warning.message))
}

fn next_to(file: &Path, name: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(name)
}

/// Tells all mistakes; the failure is what is left to say.
pub(crate) fn mistaken(mistakes: &Mistakes, is_json: bool) -> Failure {
    let told = match is_json {
        true => print_json(&mut output::stdout(), &serde_json::json!({"errors": mistakes.0})),
        false => mistakes.0.iter().try_for_each(|it| writeln!(output::stderr(), "{it}")),
    };
    match (told, mistakes.0.len()) {
        (Err(error), _) => error.into(),
        (Ok(()), 1) => Failure::usage("1 error; nothing was changed"),
        (Ok(()), count) => Failure::usage(format!("{count} errors; nothing was changed")),
    }
}
