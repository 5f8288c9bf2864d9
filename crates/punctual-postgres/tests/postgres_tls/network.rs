//! A network of the test's own, in which the addresses of other machines belong to this one.

use std::path::Path;
use std::process::Command;

/// Says that this process is in such a network.
const INSIDE: &str = "PUNCTUAL_TEST_INSIDE";

const PREPARE: &str =
    "ip link set lo up && ip route add local 203.0.113.0/24 dev lo && exec \"$0\" \"$@\"";

/// Runs the test of this name again in a network of its own, unless this is that process. There the
/// system trusts only these certificates.
pub(crate) fn is_inside(test: &str, trusted: &Path) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let own = std::env::current_exe().expect("the path of this program");
    let status = Command::new("unshare")
        .args(["--net", "sh", "-c", PREPARE])
        .arg(own)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .env("SSL_CERT_FILE", trusted)
        .env_remove("SSL_CERT_DIR")
        .status()
        .expect("`unshare` of util-linux is installed");
    assert!(
        status.success(),
        "the test failed in its own network, see above; it needs root (or CAP_SYS_ADMIN) and `ip` of \
         iproute2"
    );
    false
}
