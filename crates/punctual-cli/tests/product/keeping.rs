//! The database itself, and whoever looks after the process.

use std::io::{Seek, SeekFrom, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use punctual::rusqlite::Connection;

use crate::process::{Serving, punctual, text, write_with_mode};

/// Runs a command on a file.
fn on(directory: &Path, file: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let url = format!("sqlite://{file}");
    let output = punctual(directory, args).args(["--database", &url]).output().unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_file_is_copied_while_it_is_in_use_and_checked() {
    let directory = tempfile::tempdir().unwrap();
    let server = Serving::start(directory.path(), &["serve"]);
    let done = server.ask(&["job", "enqueue", "echo", "--payload", "7", "--wait"]);
    let id = done["id"].as_str().unwrap();
    let on = |file: &str, args: &[&str]| on(directory.path(), file, args);
    let (code, told, error) = on("punctual.db", &["db", "backup", "copy.db"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(told.starts_with("Wrote backup copy.db ("), "{told}");
    assert_eq!(
        on("punctual.db", &["db", "check"]),
        (Some(0), "Database OK\n".into(), String::new())
    );
    assert_eq!(server.stop(), Some(0));
    // What the copy knows is what was known.
    let (code, shown, _) = on("copy.db", &["job", "show", id, "--json"]);
    assert_eq!(code, Some(0));
    assert!(shown.contains("\"succeeded\""), "{shown}");
    let (code, _, error) = on("punctual.db", &["db", "backup", "copy.db"]);
    assert_eq!((code, error.contains("already exists")), (Some(5), true), "{error}");
    let (code, _, error) = on("punctual.db", &["db", "backup", "nowhere/copy.db"]);
    assert_eq!((code, error.contains("cannot create")), (Some(4), true), "{error}");

    // Damage in the midst of the file.
    let length = std::fs::metadata(directory.path().join("copy.db")).unwrap().len();
    let mut file =
        std::fs::File::options().write(true).open(directory.path().join("copy.db")).unwrap();
    file.seek(SeekFrom::Start(length / 2 / 4096 * 4096)).unwrap();
    file.write_all(&[0xA5; 8192]).unwrap();
    drop(file);
    let (code, told, error) = on("copy.db", &["db", "check"]);
    assert_eq!(code, Some(1), "{told} {error}");
    assert!(!told.is_empty() || !error.is_empty());
}

#[test]
fn a_database_of_a_newer_program_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(on(directory.path(), "new.db", &["db", "migrate"]).0, Some(0));
    let db = Connection::open(directory.path().join("new.db")).unwrap();
    db.execute("UPDATE punctual_meta SET value = 99", []).unwrap();
    drop(db);
    for args in [&["job", "list"][..], &["doctor"], &["db", "migrate"], &["serve"]] {
        let (code, _, error) = on(directory.path(), "new.db", args);
        assert_eq!(code, Some(78), "{args:?}: {error}");
        assert!(error.contains("upgrade the program"), "{args:?}: {error}");
    }
}

#[test]
fn postgresql_is_copied_by_its_own_means() {
    let output = punctual(Path::new("/"), &["db", "backup", "x", "--database", "postgres://h/d"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("pg_dump"));
}

#[test]
fn systemd_is_told_how_the_process_is() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("notify");
    let socket = UnixDatagram::bind(&place).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let hear = || {
        let mut message = [0; 100];
        let count = socket.recv(&mut message).unwrap();
        text(&message[..count]).trim().to_owned()
    };
    let environment = [("NOTIFY_SOCKET", place.to_str().unwrap()), ("WATCHDOG_USEC", "300000")];
    let server = Serving::start_with(directory.path(), &["serve"], &environment);
    assert_eq!(hear(), "READY=1");
    for _ in 0..3 {
        assert_eq!(hear(), "WATCHDOG=1");
    }
    assert_eq!(server.stop(), Some(0));
    while hear() != "STOPPING=1" {}
}

#[test]
fn a_unit_for_systemd_is_printed() {
    let directory = tempfile::tempdir().unwrap();
    let unit = |flags: &[&str]| {
        let args = [&["serve", "--print-systemd-unit"], flags].concat();
        let output = punctual(directory.path(), &args).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let here = std::fs::canonicalize(directory.path()).unwrap();
        let unit = text(&output.stdout).replace(env!("CARGO_BIN_EXE_punctual"), "PROGRAM");
        unit.replace(here.to_str().unwrap(), "HERE")
    };
    // A file of settings that is not there is not named: `serve` would refuse to start.
    insta::assert_snapshot!(unit(&[]), @r"
    [Unit]
    Description=punctual, durable cron and background jobs
    After=network-online.target
    Wants=network-online.target

    [Service]
    Type=notify
    ExecStart=PROGRAM serve
    WatchdogSec=30
    TimeoutStartSec=150
    KillMode=mixed
    TimeoutStopSec=40
    Restart=always
    RestartSec=1
    DynamicUser=yes
    UMask=0077
    StateDirectory=punctual
    StateDirectoryMode=0700
    RuntimeDirectory=punctual
    RuntimeDirectoryMode=0700
    WorkingDirectory=/var/lib/punctual
    LimitNOFILE=65536
    LimitCORE=0

    # The commands of jobs run in this sandbox, too. If they need more, relax it in a drop-in:
    # other directories for writing: ReadWritePaths=DIRECTORY
    # home directories: ProtectHome=no
    # devices: PrivateDevices=no
    # commands as other users (`user`): DynamicUser=no, User=root, NoNewPrivileges=no,
    #   CapabilityBoundingSet=~, RestrictSUIDSGID=no
    NoNewPrivileges=yes
    CapabilityBoundingSet=
    ProtectSystem=strict
    ProtectHome=yes
    PrivateTmp=yes
    PrivateDevices=yes
    ProtectClock=yes
    ProtectControlGroups=yes
    ProtectHostname=yes
    ProtectKernelLogs=yes
    ProtectKernelModules=yes
    ProtectKernelTunables=yes
    ProtectProc=invisible
    LockPersonality=yes
    RestrictNamespaces=yes
    RestrictRealtime=yes
    RestrictSUIDSGID=yes
    RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
    SystemCallArchitectures=native
    # It contains @resources, which resource limits of commands need.
    SystemCallFilter=@system-service
    SystemCallErrorNumber=EPERM

    [Install]
    WantedBy=multi-user.target
    ");
    let command = |flags: &[&str]| {
        let unit = unit(flags);
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap().to_owned()
    };
    std::fs::write(directory.path().join("punctual.toml"), "").unwrap();
    write_with_mode(&directory.path().join("token"), "0123456789abcdef", 0o600);
    assert_eq!(command(&[]), "PROGRAM serve --config HERE/punctual.toml");
    let flags = "--listen 0.0.0.0:80 --role api,worker --queue a,b --token-file token --name web-1 --label zone=eu --label x=y --read-only --database postgres://app@db/app";
    let flags: Vec<&str> = flags.split(' ').collect();
    insta::assert_snapshot!(command(&flags), @"PROGRAM serve --config HERE/punctual.toml --listen 0.0.0.0:80 --name web-1 --role api,worker --queue a,b --label zone=eu --label x=y --read-only --database postgres://app@db/app --token-file ${CREDENTIALS_DIRECTORY}/token");
    assert!(!directory.path().join("punctual.db").exists(), "nothing is started");
}
