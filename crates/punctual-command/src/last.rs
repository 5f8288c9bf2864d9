//! The last step before a command: a process that becomes it.
//!
//! The shim has to live to the end, whatever its command may use; so limits, the user and the
//! directory are for the process that the command will be, and not for the shim. What it cannot do it
//! tells over its socket, which closes when the program takes its place.

use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::fs::{Access, access};
use rustix::process::{
    Gid, Pid, Resource, Rlimit, Signal, Uid, getppid, getrlimit, set_parent_process_death_signal,
    setrlimit,
};
use rustix::thread::{set_no_new_privs, set_thread_gid, set_thread_groups, set_thread_uid};

use crate::config::Limits;
use crate::wire::{Become, NotStarted, Spec, Step};

/// Becomes a command. A binary that handles commands calls it when
/// [`LAST_STEP`](crate::LAST_STEP) is its first argument, before it has started any thread.
pub fn last_step() -> ExitCode {
    // Nobody is left to be told if the socket fails.
    let _ = run();
    ExitCode::FAILURE
}

fn run() -> io::Result<()> {
    // Another than the one that the program inherits as its input; this one closes by itself.
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut told = Vec::new();
    socket.read_to_end(&mut told)?;
    let told: Become = serde_json::from_slice(&told)?;
    let Err(failed) = start(&told);
    socket.write_all(&serde_json::to_vec(&failed)?)
}

/// Comes back only if it cannot be done.
fn start(Become { spec, shim }: &Become) -> Result<std::convert::Infallible, NotStarted> {
    let at = |step: Step| {
        move |error: io::Error| NotStarted {
            step,
            errno: error.raw_os_error(),
            why: error.to_string(),
        }
    };
    let errno_at = |step: Step| move |errno: rustix::io::Errno| at(step)(errno.into());
    // While there is no limit to it.
    let input = input(spec.stdin.as_deref()).map_err(at(Step::Prepare))?;
    let mut command = Command::new(&spec.program);
    command.args(&spec.args).env_clear().envs(&spec.env).stdin(input);
    prepare(spec).map_err(errno_at(Step::Prepare))?;
    if let Some((uid, gid)) = spec.become_ids {
        become_ids(uid, gid).map_err(errno_at(Step::Start))?;
    }
    // A change of user forgets it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(errno_at(Step::Prepare))?;
    if getppid().map(Pid::as_raw_pid) != Some(*shim) {
        let error = io::Error::other("the supervisor process has exited");
        return Err(at(Step::Prepare)(error));
    }
    // As whoever it is by now, who may not enter all that the worker may.
    std::env::set_current_dir(&spec.cwd).map_err(at(Step::Directory))?;
    if is_no_program(&spec.program) {
        return Err(errno_at(Step::Start)(rustix::io::Errno::NOEXEC));
    }
    Err(at(Step::Start)(command.exec()))
}

/// Would the kernel refuse to execute the file for what is in it? Some C libraries then hand it to a
/// shell, which nobody has asked for. When in doubt, it is the kernel's to say.
fn is_no_program(path: &Path) -> bool {
    let may_be_executed = path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if !may_be_executed || knows_more_formats() {
        return false;
    }
    let (Ok(file), Ok(own)) = (first_bytes(path), first_bytes(Path::new("/proc/self/exe"))) else {
        return false;
    };
    match file.starts_with(b"\x7fELF") {
        // For as many bits, but for another machine.
        true => file.get(4) == own.get(4) && file.get(18..20) != own.get(18..20),
        false => !file.starts_with(b"#!"),
    }
}

/// Has somebody told the kernel of further formats? Two files are always there.
fn knows_more_formats() -> bool {
    std::fs::read_dir("/proc/sys/fs/binfmt_misc").is_ok_and(|entries| entries.count() > 2)
}

fn first_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(20).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All that the command inherits.
fn prepare(spec: &Spec) -> rustix::io::Result<()> {
    rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o077));
    if !spec.new_privileges {
        set_no_new_privs(true)?;
    }
    let Limits { cpu_seconds, memory_bytes, processes, open_files, file_bytes } = spec.limits;
    let limits = [
        (Resource::Core, Some(0)),
        (Resource::Cpu, cpu_seconds),
        (Resource::As, memory_bytes),
        (Resource::Nproc, processes),
        (Resource::Nofile, open_files),
        (Resource::Fsize, file_bytes),
    ];
    if let Some(soft) = spec.open_files {
        let maximum = getrlimit(Resource::Nofile).maximum;
        let current = Some(maximum.map_or(soft, |most| most.min(soft)));
        setrlimit(Resource::Nofile, Rlimit { current, maximum })?;
    }
    for (resource, limit) in limits {
        let Some(limit) = limit else { continue };
        // More than the worker has is not to be had.
        let most = getrlimit(resource).maximum.map_or(limit, |most| most.min(limit));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Becomes somebody else, for good. There is one thread, so that what is done to it is done to all.
fn become_ids(uid: u32, gid: u32) -> rustix::io::Result<()> {
    // Root's further groups are dropped with it.
    set_thread_groups(&[])?;
    set_thread_gid(Gid::from_raw(gid))?;
    set_thread_uid(Uid::from_raw(uid))
}

/// What the command reads: a file in memory, so that nobody has to feed it.
fn input(text: Option<&str>) -> io::Result<Stdio> {
    let Some(text) = text else { return Ok(Stdio::null()) };
    let file = rustix::fs::memfd_create("stdin", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(file);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(Stdio::from(file))
}
