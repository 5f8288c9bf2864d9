//! Collects the cases of the suites, so that a case is registered by being written.
//!
//! A case is a public function whose only parameter is a [`World`] (`src/*.rs`, for `suite!`) or a `Stage`
//! (`src/firing/*.rs`, for `firing_suite!`). The lists are written to `OUT_DIR`, and the crate includes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=src");
    let suite = collect_cases(Path::new("src"), "&World<'_>");
    let firing = collect_cases(Path::new("src/firing"), "&Stage");
    let mut text = String::new();
    write_suite(
        &mut text,
        "suite",
        "run_cases",
        "Makes the tests of the suite for one store. The argument is a closure that makes a fresh \
         [`Subject`] asynchronously.",
        &suite,
    );
    write_suite(
        &mut text,
        "firing_suite",
        "run_firing_cases",
        "Makes the tests of the scheduler for one store. The argument is a closure that makes a fresh \
         store asynchronously, as an `Arc<dyn Store>`, and something that lives as long.",
        &firing,
    );
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("suites.rs"), text).expect("the lists can be written");
}

/// The cases of each file of a directory, by the name of its module.
fn collect_cases(directory: &Path, parameter: &str) -> BTreeMap<String, Vec<String>> {
    let mut modules = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("the sources can be read") {
        let path = entry.expect("the sources can be read").path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let source = fs::read_to_string(&path).expect("a source can be read");
        let cases = cases_of(&source, parameter);
        if !cases.is_empty() {
            let module = path.file_stem().expect("a source has a name").to_string_lossy();
            modules.insert(module.into_owned(), cases);
        }
    }
    assert!(!modules.is_empty(), "no cases in {}", directory.display());
    modules
}

/// The names of the cases of a file. Methods are indented and therefore no cases.
fn cases_of(source: &str, parameter: &str) -> Vec<String> {
    let source = format!("\n{source}");
    let functions = source.split("\npub async fn ").skip(1);
    let cases = functions.filter_map(|function| {
        let (name, rest) = function.split_once('(')?;
        let (parameters, _) = rest.split_once(')')?;
        // rustfmt breaks long signatures into lines.
        let (_, kind) = parameters.trim().trim_end_matches(',').split_once(':')?;
        (kind.trim() == parameter).then(|| name.to_owned())
    });
    cases.collect()
}

fn write_suite(
    text: &mut String,
    name: &str,
    run: &str,
    doc: &str,
    modules: &BTreeMap<String, Vec<String>>,
) {
    let mut line = |line: String| writeln!(text, "{line}").expect("a string can grow");
    line(format!("/// {doc}"));
    line(format!("#[macro_export]\nmacro_rules! {name} {{"));
    line("    ($make:expr) => {".to_owned());
    line(format!("        $crate::{run}! {{ $make;"));
    for (module, cases) in modules {
        line(format!("            {module}: {};", cases.join(", ")));
    }
    line("        }\n    };\n}".to_owned());
}
