//! The description of the API is committed, so that a change of it is seen.

use std::path::Path;

#[test]
fn the_description_is_as_committed() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let mut described = punctual_server::openapi().to_pretty_json().unwrap();
    described.push('\n');
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    if described != committed {
        std::fs::write(&file, &described).unwrap();
        panic!(
            "docs/openapi.json was not what the server says; it is now: look at the difference and commit it"
        );
    }
}
