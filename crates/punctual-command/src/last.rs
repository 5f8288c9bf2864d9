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

use crate::hide::{hide_process, keep_descriptors};
use crate::limit::{Limit, Limits, OPEN_FILES_DEFAULT, PROCESSES_DEFAULT};
use crate::wire::{Become, NotStarted, Spec, Step};

/// Becomes a command. A binary that handles commands calls it when
/// [`LAST_STEP`](crate::LAST_STEP) is its first argument, before it has started any thread.
pub fn last_step() -> ExitCode {
    // Nobody is left to be told if the socket fails.
    let _ = run();
    ExitCode::FAILURE
}

fn run() -> io::Result<()> {
    hide_process()?;
    keep_descriptors();
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
        (Resource::Core, Limit::At(0), None),
        (Resource::Cpu, cpu_seconds, None),
        (Resource::As, memory_bytes, None),
        (Resource::Nproc, processes, Some(PROCESSES_DEFAULT)),
        (Resource::Nofile, open_files, Some(OPEN_FILES_DEFAULT)),
        (Resource::Fsize, file_bytes, None),
    ];
    for (resource, limit, default) in limits {
        if let Some(limit) = effective(limit, default, getrlimit(resource)) {
            setrlimit(resource, limit)?;
        }
    }
    Ok(())
}

/// The limit that a program gets, if it is another than that of the worker. More than the worker has
/// is not to be had. A default never raises the soft limit: programs that use `select` break with more
/// than 1,024 descriptors.
fn effective(limit: Limit, default: Option<u64>, own: Rlimit) -> Option<Rlimit> {
    let lower = |own: Option<u64>, limit: u64| Some(own.map_or(limit, |own| own.min(limit)));
    match (limit, default) {
        (Limit::At(limit), _) => {
            let most = lower(own.maximum, limit);
            Some(Rlimit { current: most, maximum: most })
        }
        (Limit::Default, Some(limit)) => {
            Some(Rlimit { current: lower(own.current, limit), maximum: lower(own.maximum, limit) })
        }
        (Limit::Default, None) | (Limit::None, _) => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(current: Option<u64>, maximum: Option<u64>) -> Rlimit {
        Rlimit { current, maximum }
    }

    #[test]
    fn a_default_lowers_and_a_setting_decides_and_none_leaves_all_as_it_is() {
        let own = limit(Some(1_024), Some(1_048_576));
        let default = Some(OPEN_FILES_DEFAULT);
        assert_eq!(effective(Limit::Default, default, own), Some(limit(Some(1_024), Some(65_536))));
        let set = Some(limit(Some(9_000), Some(9_000)));
        assert_eq!(effective(Limit::At(9_000), default, own), set);
        let most = Some(limit(Some(1_048_576), Some(1_048_576)));
        assert_eq!(effective(Limit::At(u64::MAX), default, own), most);
        assert_eq!(effective(Limit::None, default, own), None);
        assert_eq!(effective(Limit::Default, None, own), None);
        let endless = limit(None, None);
        let lowered = Some(limit(Some(65_536), Some(65_536)));
        assert_eq!(effective(Limit::Default, default, endless), lowered);
        let strict = limit(Some(256), Some(512));
        assert_eq!(effective(Limit::Default, default, strict), Some(strict));
    }
}
