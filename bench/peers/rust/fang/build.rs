//! fang's tables are in its package: this tells the harness where that is.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=Cargo.toml");
    let cargo = env::var("CARGO").expect("cargo runs this");
    // What other platforms need has not been downloaded.
    let target = env::var("TARGET").expect("cargo sets this");
    let metadata = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--offline", "--locked", "--filter-platform"])
        .arg(target)
        .output()
        .expect("cargo runs");
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let fang = packages.iter().find(|package| package["name"] == "fang").expect("fang is one");
    let manifest = fang["manifest_path"].as_str().expect("a path");
    let migrations = manifest.replace("Cargo.toml", "postgres_migrations/migrations");
    println!("cargo::rustc-env=FANG_MIGRATIONS={migrations}");
}
