//! Every crate takes from the workspace what all crates share.

use super::Violation;

/// What each `[package]` inherits.
const INHERITED: [&str; 3] = ["version", "edition", "license"];

/// Checks a `Cargo.toml`. One with a workspace of its own has nothing to inherit from.
pub(super) fn check(path: &str, text: &str) -> Vec<Violation> {
    if path.rsplit('/').next() != Some("Cargo.toml") || !entries(text, "workspace").is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    let package = entries(text, "package");
    for key in INHERITED {
        let long = format!("{key}.workspace=true");
        let short = format!("{key}={{workspace=true}}");
        if !package.iter().any(|(_, entry)| *entry == long || *entry == short) {
            let own = package.iter().find(|(_, entry)| entry.starts_with(&format!("{key}=")));
            let line = own.or(package.first()).map_or(1, |(line, _)| *line);
            let what = format!("`{key}` is not inherited: write `{key}.workspace = true`");
            found.push(Violation::new(path, line, what));
        }
    }
    let lints = entries(text, "lints");
    if !lints.iter().any(|(_, entry)| entry == "workspace=true") {
        let line = lints.first().map_or(1, |(line, _)| *line);
        let what = "lints are not inherited: write `[lints]` and below it `workspace = true`";
        found.push(Violation::new(path, line, what));
    }
    found
}

/// The lines of one section with their numbers, its header first, without any spaces. Enough of
/// TOML for manifests as they are written here.
fn entries(text: &str, section: &str) -> Vec<(usize, String)> {
    let header = format!("[{section}]");
    let mut inside = false;
    (1..)
        .zip(text.lines())
        .filter_map(|(number, line)| {
            let line: String = line.chars().filter(|c| !c.is_whitespace()).collect();
            if line.starts_with('[') {
                inside = line == header;
            }
            inside.then_some((number, line))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
[package]
name = \"x\"
version.workspace = true
edition = { workspace = true }
license.workspace = true

[dependencies]
version = \"1\"

[lints]
workspace = true
";

    fn lines(text: &str) -> Vec<usize> {
        check("crates/x/Cargo.toml", text).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_manifest_that_inherits_everything_passes() {
        assert_eq!(lines(GOOD), [] as [usize; 0]);
    }

    #[test]
    fn what_is_not_inherited_is_found_at_its_line() {
        assert_eq!(lines(&GOOD.replace("version.workspace = true", "version = \"1.0.0\"")), [3]);
        assert_eq!(lines(&GOOD.replace("edition = { workspace = true }\n", "")), [1]);
        assert_eq!(lines(&GOOD.replace("license.workspace = true", "license = \"MIT\"")), [5]);
    }

    #[test]
    fn lints_are_inherited_too() {
        assert_eq!(lines(&GOOD.replace("[lints]\nworkspace = true\n", "")), [1]);
        assert_eq!(lines(&GOOD.replace("[lints]\nworkspace", "[lints]\n# workspace")), [10]);
        assert_eq!(lines(&GOOD.replace("[lints]", "[other]")), [1]);
    }

    #[test]
    fn only_members_of_our_workspace_are_checked() {
        assert_eq!(lines("[package]\nversion = \"1\"\n[workspace]\n"), [] as [usize; 0]);
        assert_eq!(check("crates/x/other.toml", ""), []);
    }
}
