//! The command line as people meet it; the files are the documentation's examples as well.

#[test]
fn commands_answer_as_written_down() {
    trycmd::TestCases::new().case("tests/cmd/*.md").case("tests/cmd/*.toml").run();
}
