//! What a machine needs to start: its files, the script that creates its hosts, its command line.

use crate::machine::{Machine, MachineError, NETWORK_SOCKET, TIME_SOCKET};
use crate::process::Process;
use crate::stack::{CONTROL_MAC, KernelStack, Timing};
use pauseframe_fabric::host_ports::bond::{ipv4, mac};
use pauseframe_units::NodeId;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// The most hosts that a kernel has: it has 53 interrupts for devices, and one is the agent's.
pub const HOSTS_MAX: usize = 52;

/// What `pauseframe kernel build` leaves in a folder.
const KERNEL: &str = "linux";
const AGENT: &str = "agent";
const SHIM: &str = "shim.so";

/// Hosts that are namespaces of a kernel.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The folder with the kernel and its agent.
    pub files: PathBuf,
    /// Seed of all random numbers in the kernel.
    pub seed: u64,
    /// Largest IP packet.
    pub mtu: u16,
    /// The hosts and their names.
    pub hosts: Vec<(NodeId, String)>,
    /// By transport: its congestion control, and how a last, small segment is sent, as `transport.small_segments` has it.
    pub transports: Vec<String>,
    /// Parameters "module.name=value" of the kernel.
    pub parameters: Vec<String>,
    /// Attributes of the route to all others, for `ip route`.
    pub route: String,
    /// Lines "key = value" for sysctl.
    pub sysctl: Vec<String>,
    /// The queueing discipline of the card, for `tc qdisc`; empty: the kernel's default.
    pub qdisc: String,
    /// Nanoseconds from the first frame that a card has received or sent until it interrupts the kernel.
    pub interrupt_delay: u64,
    /// Nanoseconds between two samples of sockets and counters; `None`: no samples.
    pub sample_every: Option<u64>,
    /// Nanoseconds between two reports of what connections have counted; `None`: at their ends only.
    pub count_every: Option<u64>,
    /// Programs of the user: position of the host, and command.
    pub programs: Vec<(usize, String)>,
    /// Where the console and the output of programs go when the run is over.
    pub logs: Option<PathBuf>,
}

/// The folder of a running machine. It goes with it.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    logs: Option<PathBuf>,
    /// Locked as long as the run lasts: a folder whose lock is free was left by a process that was killed.
    _lock: File,
}

const FOLDER_PREFIX: &str = "pauseframe-kernel-";
const LOCK: &str = "lock";

impl RunFolder {
    fn create(base: &Path, logs: Option<PathBuf>) -> io::Result<RunFolder> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        remove_left_folders(base);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("{FOLDER_PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        // Nobody finds the lock by its name before it is locked.
        let new = path.join("lock.new");
        let lock = File::create(&new)?;
        lock.lock()?;
        fs::rename(new, path.join(LOCK))?;
        Ok(RunFolder { path, logs, _lock: lock })
    }
}

/// Removes folders of runs that were killed.
fn remove_left_folders(base: &Path) {
    let is_run = |name: &str| name.starts_with(FOLDER_PREFIX);
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        if !is_run(&entry.file_name().to_string_lossy()) {
            continue;
        }
        let lock = File::open(entry.path().join(LOCK));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Functions of the script of a host: sysctl settings, and notes of what is refused.
const HOST_SCRIPT_START: &str = r#"host=$1
refuse() { printf '%s\t%s\n' "$host" "$1" >>/run/pauseframe/refused; }
put() {
if [ ! -e "/proc/sys/$1" ]; then refuse "sysctl '$3': this kernel has no such key"
elif ! { echo "$2" >"/proc/sys/$1"; } 2>/dev/null; then refuse "sysctl '$3': the kernel refuses this value"; fi
}
"#;

/// What the agent writes samples into.
const SAMPLES: &str = "samples";

impl RunFolder {
    /// Takes what the agent has written down.
    pub(crate) fn take_samples(&self) -> String {
        let path = self.path.join(SAMPLES);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        text
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if let Some(logs) = &self.logs {
            let of_program = |name: &str| name.starts_with("program-");
            let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
            for entry in entries {
                let name = entry.file_name().to_string_lossy().into_owned();
                if of_program(&name) || name == "console.log" {
                    let _ = fs::create_dir_all(logs);
                    let _ = fs::copy(entry.path(), logs.join(name));
                }
            }
        }
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Setup {
    /// Boots the kernel and creates the hosts.
    ///
    /// # Errors
    /// If a file is missing, the system refuses, or the kernel fails.
    pub fn boot(mut self) -> Result<KernelStack, MachineError> {
        let system = |what| move |error| MachineError::System(what, error);
        // The kernel runs in another folder.
        self.files =
            std::path::absolute(&self.files).map_err(system("cannot find the folder of the kernel"))?;
        let folder = RunFolder::create(&std::env::temp_dir(), self.logs.clone())
            .map_err(system("cannot create a folder for the kernel"))?;
        self.write(&folder.path).map_err(system("cannot write the files of the kernel"))?;
        let mut macs = vec![CONTROL_MAC];
        macs.extend(self.hosts.iter().map(|(node, _)| mac(*node)));
        let launch = |path: &Path, time: BorrowedFd<'_>| self.launch(path, time);
        let machine = Machine::start(&folder.path, launch, &macs, self.mtu)?;
        let nodes: Vec<NodeId> = self.hosts.iter().map(|(node, _)| *node).collect();
        let programs =
            self.programs.iter().map(|(host, command)| format!("{}={command:?}", self.hosts[*host].1));
        let timing = Timing {
            interrupt_delay: self.interrupt_delay,
            sample_every: self.sample_every,
            count_every: self.count_every,
        };
        let path = folder.path.clone();
        KernelStack::boot(machine, &nodes, programs.collect(), timing, folder, || self.refusals(&path))
    }

    /// Settings that the kernel has refused, a line each.
    fn refusals(&self, folder: &Path) -> Option<MachineError> {
        let text = fs::read_to_string(folder.join("refused")).ok()?;
        let mut hosts_by_setting: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (host, setting) in text.lines().filter_map(|line| line.split_once('\t')) {
            let index = host.strip_prefix("host-").and_then(|index| index.parse::<usize>().ok());
            let name = index.and_then(|index| self.hosts.get(index)).map_or(host, |(_, name)| name);
            hosts_by_setting.entry(setting).or_default().push(name);
        }
        let lines = hosts_by_setting.iter().map(|(setting, hosts)| match hosts[..] {
            [host] => format!("{setting} ({host})"),
            [first, ref rest @ ..] => format!("{setting} ({first} and {} more)", rest.len()),
            [] => (*setting).to_owned(),
        });
        let lines: Vec<String> = lines.collect();
        (!lines.is_empty()).then(|| MachineError::Refused(lines.join("\n")))
    }

    fn launch(&self, folder: &Path, time: BorrowedFd<'_>) -> io::Result<Process> {
        let mut arguments: Vec<OsString> = [
            "mem=1G",
            // The folder of the run is the first root, under the same name in every run.
            "hostfs=/proc/self/cwd",
            "root=/dev/root",
            "rootfstype=hostfs",
            "rw",
            "init=/agent",
            "con=null",
            "con0=fd:0,fd:1",
            "uml_dir=./",
            "umid=kernel",
        ]
        .map(OsString::from)
        .to_vec();
        arguments.extend(self.parameters.iter().map(OsString::from));
        arguments.push(format!("time-travel=ext:1:{TIME_SOCKET}").into());
        for _ in 0..=self.hosts.len() {
            arguments.push(format!("virtio_uml.device={NETWORK_SOCKET}:1").into());
        }
        let mut environment = vec![
            (OsString::from("LD_PRELOAD"), self.files.join(SHIM).into_os_string()),
            ("PAUSEFRAME_SEED".into(), self.seed.to_string().into()),
            ("PAUSEFRAME_TIME".into(), time.as_raw_fd().to_string().into()),
        ];
        // Its memory is a file, which should lie in memory.
        let shared = Path::new("/dev/shm");
        let memory = if shared.is_dir() { shared } else { folder };
        environment.push(("TMPDIR".into(), memory.as_os_str().to_owned()));
        Process::start(&self.files.join(KERNEL), &arguments, &environment, folder, time)
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir(folder.join("host"))?;
        fs::copy(self.files.join(AGENT), folder.join(AGENT))?;
        fs::write(folder.join("setup.sh"), self.script())?;
        fs::write(folder.join("host.sh"), self.host_script())?;
        let lines = |lines: &mut dyn Iterator<Item = String>| {
            lines.fold(String::new(), |all, line| all + &line + "\n")
        };
        fs::write(folder.join("hosts"), lines(&mut (0..self.hosts.len()).map(namespace)))?;
        fs::write(folder.join("transports"), lines(&mut self.transports.iter().cloned()))?;
        let programs = self.programs.iter().map(|(host, command)| format!("{}\t{command}", namespace(*host)));
        fs::write(folder.join("programs"), lines(&mut programs.into_iter()))?;
        let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
        let named = self.hosts.iter().filter(|(_, name)| is_name(name));
        let known = named.map(|(node, name)| format!("{} {name}", dotted(*node)));
        let known = std::iter::once("127.0.0.1 localhost".to_owned()).chain(known);
        fs::write(folder.join("etc-hosts"), lines(&mut known.into_iter()))
    }

    /// What the agent runs first: a namespace for each host, with its card, its address and its neighbours.
    fn script(&self) -> String {
        let mut text = String::from("set -e\nip -batch - <<END\n");
        for index in 0..self.hosts.len() {
            let _ = writeln!(text, "netns add {0}\nlink set eth{1} netns {0}", namespace(index), index + 1);
        }
        text += "END\n";
        let settings = self.host_script();
        for index in 0..self.hosts.len() {
            text += &self.host_lines(index);
            if !settings.is_empty() {
                let _ = writeln!(text, "ip netns exec {0} sh /run/pauseframe/host.sh {0}", namespace(index));
            }
        }
        text + "[ ! -s /run/pauseframe/refused ]\n"
    }

    fn host_lines(&self, index: usize) -> String {
        let (node, name) = (self.hosts[index].0, namespace(index));
        let (address, card, mtu, route) = (dotted(node), index + 1, self.mtu, &self.route);
        // Only the route has words of the user.
        let mut text = format!(
            "ip -n {name} -batch - 2>/run/pauseframe/said <<END || \
             echo \"{name}\thost.route '{route}': $(head -n 1 /run/pauseframe/said)\" >>/run/pauseframe/refused\n\
             link set lo up\n\
             link set eth{card} name eth0\n\
             address add {address}/32 dev eth0\n\
             link set eth0 mtu {mtu} up\n\
             route add 10.0.0.0/8 dev eth0 scope link src {address} {route}\n"
        );
        for (other, _) in self.hosts.iter().filter(|(other, _)| *other != node) {
            let mac = mac(*other).map(|byte| format!("{byte:02x}")).join(":");
            let _ = writeln!(text, "neigh add {} lladdr {mac} dev eth0 nud permanent", dotted(*other));
        }
        text + "END\n"
    }

    /// What runs in each host, with the host as its argument: settings of the kernel and of the card. It notes what the kernel refuses.
    fn host_script(&self) -> String {
        if self.sysctl.is_empty() && self.qdisc.is_empty() {
            return String::new();
        }
        let mut text = String::from(HOST_SCRIPT_START);
        for line in &self.sysctl {
            let (key, value) = line.split_once('=').unwrap_or((line, ""));
            let path = key.trim().replace('.', "/");
            let _ = writeln!(text, "put {path} '{}' '{}'", value.trim(), line.trim());
        }
        if !self.qdisc.is_empty() {
            let _ = writeln!(
                text,
                "said=$(tc qdisc replace dev eth0 root {0} 2>&1) || refuse \"host.qdisc '{0}': $(echo \"$said\" | head -n 1)\"",
                self.qdisc
            );
        }
        text
    }
}

/// The namespace of a host. Names of a topology may have characters that the shell reads otherwise.
fn namespace(index: usize) -> String {
    format!("host-{index}")
}

fn dotted(node: NodeId) -> String {
    let [a, b, c, d] = ipv4(node);
    format!("{a}.{b}.{c}.{d}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn setup(files: &Path) -> Setup {
        Setup {
            files: files.to_owned(),
            seed: 1,
            mtu: 1500,
            hosts: vec![(NodeId(0), "a".to_owned()), (NodeId(1), "b".to_owned())],
            transports: vec!["cubic at_once".to_owned()],
            parameters: Vec::new(),
            route: "initcwnd 20".to_owned(),
            sysctl: vec!["net.ipv4.tcp_ecn = 1".to_owned()],
            qdisc: "fq".to_owned(),
            interrupt_delay: 0,
            sample_every: None,
            count_every: None,
            programs: Vec::new(),
            logs: None,
        }
    }

    #[test]
    fn a_kernel_that_ends_shows_its_last_20_lines() {
        let here = std::env::current_dir().unwrap();
        let files = tempfile::tempdir_in(&here).unwrap();
        let script = "#!/bin/sh\ni=1; while [ $i -le 30 ]; do echo line $i; i=$((i+1)); done; exit 3\n";
        fs::write(files.path().join(KERNEL), script).unwrap();
        fs::set_permissions(files.path().join(KERNEL), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(files.path().join(AGENT), "").unwrap();
        let expected: Vec<String> = (11..=30).map(|line| format!("line {line}")).collect();
        // The kernel runs in another folder, so a relative path must not be read there.
        for path in [files.path(), files.path().strip_prefix(&here).unwrap()] {
            let Err(MachineError::Ended(lines)) = setup(path).boot() else { panic!("it must end") };
            assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
        }
    }

    /// As that of a test, a container or a batch job: an address of a socket has 107 bytes.
    #[test]
    fn a_folder_may_have_a_long_path() {
        let files = tempfile::tempdir().unwrap();
        let folder = files.path().join("a".repeat(200));
        fs::create_dir(&folder).unwrap();
        fs::write(files.path().join(KERNEL), "#!/bin/sh\necho $*; ls; exit 3\n").unwrap();
        fs::set_permissions(files.path().join(KERNEL), fs::Permissions::from_mode(0o755)).unwrap();
        let setup = setup(files.path());
        let launch = |path: &Path, time: BorrowedFd<'_>| setup.launch(path, time);
        let machine = Machine::start(&folder, launch, &[CONTROL_MAC], 1500).unwrap();
        assert!(folder.join(TIME_SOCKET).exists());
        machine.close_listeners();
        assert!(!folder.join(TIME_SOCKET).exists());
    }

    #[test]
    fn folders_of_killed_runs_are_removed_and_those_of_others_stay() {
        let base = tempfile::tempdir().unwrap();
        let left = base.path().join(format!("{FOLDER_PREFIX}1-0"));
        fs::create_dir(&left).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        let first = RunFolder::create(base.path(), None).unwrap();
        let second = RunFolder::create(base.path(), None).unwrap();
        assert!(!left.exists() && first.path.exists() && second.path.exists());
        let path = first.path.clone();
        drop(first);
        assert!(!path.exists());
    }

    #[test]
    fn the_script_sets_each_host_up() {
        let setup = setup(Path::new("files"));
        let script = setup.script();
        for line in [
            "link set eth2 netns host-1",
            "route add 10.0.0.0/8 dev eth0 scope link src 10.0.0.1 initcwnd 20",
            "neigh add 10.0.0.0 lladdr 02:00:00:00:00:00 dev eth0 nud permanent",
            "ip netns exec host-1 sh /run/pauseframe/host.sh host-1",
        ] {
            assert!(script.lines().any(|written| written.trim() == line), "{line} is not in\n{script}");
        }
        let settings = setup.host_script();
        assert!(settings.contains("\nput net/ipv4/tcp_ecn '1' 'net.ipv4.tcp_ecn = 1'\n"), "{settings}");
        assert!(settings.contains("\nsaid=$(tc qdisc replace dev eth0 root fq 2>&1)"), "{settings}");
    }

    /// The script of a host, run by a shell here: refused settings are noted, and named with their hosts.
    #[test]
    fn a_refused_setting_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let sysctl = ["net.ipv4.tcp_nonsense = 1", "kernel.version = x", "dev.null = 1"];
        let sysctl = sysctl.map(str::to_owned).to_vec();
        let setup = Setup { sysctl, qdisc: String::new(), ..setup(folder.path()) };
        fs::create_dir_all(folder.path().join("dev")).unwrap();
        fs::write(folder.path().join("dev/null"), "").unwrap();
        fs::create_dir_all(folder.path().join("kernel/version")).unwrap();
        let here = folder.path().to_str().unwrap();
        let script = setup.host_script().replace("/run/pauseframe", here).replace("/proc/sys", here);
        for host in ["host-0", "host-1"] {
            let done = std::process::Command::new("sh").args(["-c", &script, "sh", host]).status().unwrap();
            assert!(done.success());
        }
        let error = setup.refusals(folder.path()).unwrap().to_string();
        assert_eq!(
            error,
            "the kernel refuses settings:\n\
             sysctl 'kernel.version = x': the kernel refuses this value (a and 1 more)\n\
             sysctl 'net.ipv4.tcp_nonsense = 1': this kernel has no such key (a and 1 more)"
        );
    }
}
