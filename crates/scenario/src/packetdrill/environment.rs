//! What a script sets beside its packets: sysctls, options of sockets and of the script.

use super::Stop;
use pauseframe_units::files;
use std::collections::BTreeMap;
use std::path::Path;

/// Sysctls below `net.ipv4.` that change nothing here: what they are about is not modelled or not used by scripts that can run.
const WITHOUT_EFFECT: [&str; 19] = [
    "tcp_abort_on_overflow",
    "tcp_autocorking",
    "tcp_ecn_fallback",
    "tcp_ecn_option",
    "tcp_fack",
    "tcp_fastopen",
    "tcp_fastopen_key",
    "tcp_fin_timeout",
    "tcp_keepalive_time",
    "tcp_limit_output_bytes",
    "tcp_mem",
    "tcp_min_tso_segs",
    "tcp_moderate_rcvbuf",
    "tcp_no_metrics_save",
    "tcp_orphan_retries",
    "tcp_rfc1337",
    "tcp_stdurg",
    "tcp_syncookies",
    "tcp_tw_reuse",
];
/// Sysctls whose value must be the one that the model has.
const FIXED: [(&str, &str); 6] = [
    ("tcp_invalid_ratelimit", "500"),
    ("tcp_mtu_probing", "0"),
    ("tcp_notsent_lowat", "4294967295"),
    ("tcp_tso_win_divisor", "3"),
    ("tcp_window_scaling", "1"),
    ("tcp_max_reordering", "300"),
];
/// Files included by files.
const MAX_DEPTH: u32 = 4;

/// The settings of a script.
#[derive(Debug)]
pub(super) struct Environment {
    /// Keys of `[transport]` and their values as TOML.
    pub(super) keys: BTreeMap<String, String>,
    /// `tcp_ecn`
    pub(super) ecn: u32,
    pub(super) timestamps: bool,
    /// Of SYN, and of SYN-ACK.
    pub(super) handshake_retries: [String; 2],
    /// Segmentation offload of the device.
    pub(super) tso: bool,
}

impl Default for Environment {
    fn default() -> Environment {
        Environment {
            keys: BTreeMap::new(),
            ecn: 2,
            timestamps: true,
            handshake_retries: ["6".to_owned(), "5".to_owned()],
            tso: true,
        }
    }
}

impl Environment {
    /// Takes over what a shell command of a script in `folder` sets. Nothing is executed.
    pub(super) fn read_command(&mut self, text: &str, folder: &Path) -> Result<(), Stop> {
        self.read_shell(text, folder, 0)
    }

    fn read_shell(&mut self, text: &str, folder: &Path, depth: u32) -> Result<(), Stop> {
        for line in text.replace("\\\n", " ").lines() {
            for statement in split_statements(line) {
                if !is_default_of_module(&statement) {
                    self.read_statement(&words(&statement), folder, depth)?;
                }
            }
        }
        Ok(())
    }

    fn read_statement(&mut self, words: &[String], folder: &Path, depth: u32) -> Result<(), Stop> {
        let Some(first) = words.first() else { return Ok(()) };
        let assignments = || {
            words[1..].iter().filter(|word| !word.starts_with('-')).filter_map(|word| word.split_once('='))
        };
        match first.rsplit('/').next().unwrap_or(first) {
            name if name.starts_with("sysctl_restore") => Ok(()),
            "sysctl" => assignments().try_for_each(|(key, value)| self.sysctl(key, value)),
            "set_sysctls.py" => assignments()
                .try_for_each(|(key, value)| self.sysctl(key.trim_start_matches("/proc/sys/"), value)),
            name if Path::new(name).extension().is_some_and(|extension| extension == "sh") => {
                let text = files::read_text(&folder.join(first)).ok().filter(|_| depth < MAX_DEPTH);
                let text = text.ok_or_else(|| Stop::NotApplicable(format!("cannot read {first}")))?;
                self.read_shell(&text, folder, depth + 1)
            }
            "ethtool" => {
                let off = |name: &str| words.windows(2).any(|pair| pair[0] == name && pair[1] == "off");
                self.tso &= !off("tso") && !off("gso");
                Ok(())
            }
            "tc" if words.iter().any(|word| word == "pfifo") && !words.iter().any(|word| word == "limit") => {
                Ok(())
            }
            "ip" if words.iter().any(|word| word == "tcp_metrics") => Ok(()),
            "set" | "true" | ":" | "export" => Ok(()),
            _ => Err(Stop::NotApplicable(format!("the command {:?}", words.join(" ")))),
        }
    }

    fn sysctl(&mut self, key: &str, value: &str) -> Result<(), Stop> {
        let key = key.replace('/', ".");
        let Some(name) = key.strip_prefix("net.ipv4.") else {
            return Err(Stop::NotApplicable(format!("the sysctl {key}")));
        };
        let unknown = || Stop::NotApplicable(format!("the sysctl {name} = {value}"));
        let number = value.parse::<u32>();
        let on =
            |bit: u32| number.clone().map(|number| (number & bit != 0).to_string()).map_err(|_| unknown());
        let pair = match name {
            _ if WITHOUT_EFFECT.contains(&name) => return Ok(()),
            _ if FIXED.contains(&(name, value)) => return Ok(()),
            // No super-packet waits for more data to fill it.
            "tcp_tso_win_divisor" if number.as_ref().is_ok_and(|number| *number >= 100) => {
                self.tso = false;
                return Ok(());
            }
            "tcp_timestamps" => {
                self.timestamps = value != "0";
                return Ok(());
            }
            "tcp_ecn" => {
                self.ecn = number.ok().filter(|number| *number <= 2).ok_or_else(unknown)?;
                return Ok(());
            }
            "tcp_syn_retries" | "tcp_synack_retries" => {
                number.map_err(|_| unknown())?;
                value.clone_into(&mut self.handshake_retries[usize::from(name == "tcp_synack_retries")]);
                return Ok(());
            }
            "tcp_rmem" | "tcp_wmem" => return self.buffers(name, value).ok_or_else(unknown),
            "tcp_congestion_control" => return self.control(value),
            "tcp_sack" => ("sack", on(1)?),
            "tcp_dsack" => ("dsack", on(1)?),
            "tcp_recovery" => ("rack", on(1)?),
            "tcp_frto" => ("frto", on(2)?),
            "tcp_early_retrans" => ("tlp", (number.map_err(|_| unknown())? >= 3).to_string()),
            "tcp_slow_start_after_idle" => {
                ("idle_restart", if value == "0" { "\"off\"" } else { "\"linux\"" }.to_owned())
            }
            "tcp_comp_sack_nr" => ("sack_compression", (value != "0").to_string()),
            "tcp_reordering" => ("dup_thresh", number.map_err(|_| unknown())?.to_string()),
            "tcp_retries2" => ("retries", number.map_err(|_| unknown())?.to_string()),
            "tcp_pacing_ss_ratio" => ("pacing_slow_start", number.map_err(|_| unknown())?.to_string()),
            "tcp_pacing_ca_ratio" => ("pacing_avoidance", number.map_err(|_| unknown())?.to_string()),
            _ => return Err(unknown()),
        };
        self.keys.insert(pair.0.to_owned(), pair.1);
        Ok(())
    }

    /// Minimum, initial and maximum size.
    fn buffers(&mut self, name: &str, value: &str) -> Option<()> {
        let sizes: Vec<u32> = value.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let &[_, initial, max] = sizes.as_slice() else { return None };
        let prefix = if name == "tcp_rmem" { "receive" } else { "send" };
        self.keys.insert(format!("{prefix}_buffer_initial"), format!("\"{initial} B\""));
        self.keys.insert(format!("{prefix}_buffer_max"), format!("\"{max} B\""));
        Some(())
    }

    /// A congestion control by its name in Linux.
    pub(super) fn control(&mut self, name: &str) -> Result<(), Stop> {
        let ours = match name {
            "reno" => "newreno",
            "cubic" | "dctcp" | "vegas" => name,
            _ => return Err(Stop::NotApplicable(format!("the congestion control {name}"))),
        };
        self.keys.insert("congestion_control".to_owned(), format!("\"{ours}\""));
        Ok(())
    }

    /// `SO_SNDBUF`: the kernel doubles it, and the buffer does not grow.
    pub(super) fn send_buffer(&mut self, bytes: u32) {
        let size = format!("\"{} B\"", bytes.saturating_mul(2));
        self.keys.insert("send_buffer_initial".to_owned(), size.clone());
        self.keys.insert("send_buffer_max".to_owned(), size);
    }
}

/// `echo 3 > /sys/module/tcp_cubic/parameters/hystart_detect`: both detectors of `HyStart`.
fn is_default_of_module(statement: &str) -> bool {
    statement.split_once('>').is_some_and(|(echo, file)| {
        echo.split_whitespace().eq(["echo", "3"])
            && file.trim() == "/sys/module/tcp_cubic/parameters/hystart_detect"
    })
}

/// The commands of a line, without its comment.
fn split_statements(line: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut quoted, mut before) = (false, ' ');
    for letter in line.chars() {
        quoted ^= letter == '"';
        match letter {
            '#' if !quoted && before.is_whitespace() => break,
            ';' | '&' if !quoted && before != '>' => parts.push(String::new()),
            _ => parts.last_mut().expect("never empty").push(letter),
        }
        before = letter;
    }
    parts
}

/// The words of a command, without redirections; `$((a*b))` is computed.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![];
    let mut word = String::new();
    let mut quoted = false;
    for letter in with_products(command).chars() {
        match letter {
            '"' | '\'' => quoted = !quoted,
            letter if letter.is_whitespace() && !quoted => words.push(std::mem::take(&mut word)),
            letter => word.push(letter),
        }
    }
    words.push(word);
    let mut kept = Vec::new();
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    while let Some(word) = words.next() {
        match word.trim_start_matches(|letter: char| letter.is_ascii_digit()) {
            ">" | ">>" => drop(words.next()),
            redirected if redirected.starts_with('>') => {}
            _ => kept.push(word),
        }
    }
    kept
}

fn with_products(text: &str) -> String {
    let Some((before, rest)) = text.split_once("$((") else { return text.to_owned() };
    let Some((inside, after)) = rest.split_once("))") else { return text.to_owned() };
    let product = inside.split('*').map(|factor| factor.trim().parse::<u64>()).product::<Result<u64, _>>();
    let value = product.map_or_else(|_| inside.to_owned(), |product| product.to_string());
    format!("{before}{value}{}", with_products(after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sysctls_become_keys_and_what_is_not_known_says_so() {
        let mut environment = Environment::default();
        let here = Path::new(".");
        let text = "sysctl -q net.ipv4.tcp_wmem=\"4096 $((256*1024)) 4194304\" # sizes\n\
                    ../x/set_sysctls.py /proc/sys/net/ipv4/tcp_timestamps=0 \\\n /proc/sys/net/ipv4/tcp_ecn=1\n\
                    sysctl -q net.ipv4.tcp_syncookies=1 > /dev/null 2>&1; sysctl net/ipv4/tcp_early_retrans=4\n\
                    tc qdisc add dev tun0 root pfifo\n/tmp/sysctl_restore_7.sh\nethtool -K tun0 tso off gso off";
        environment.read_command(text, here).unwrap();
        let key = |name: &str| environment.keys[name].as_str();
        assert_eq!((key("send_buffer_initial"), key("send_buffer_max")), ("\"262144 B\"", "\"4194304 B\""));
        assert_eq!(key("tlp"), "true");
        assert_eq!((environment.timestamps, environment.ecn, environment.tso), (false, 1, false));
        for (text, why) in [
            ("sysctl -q net.ipv4.tcp_mtu_probing=2", "tcp_mtu_probing = 2"),
            ("sysctl -q net.core.somaxconn=7", "net.core.somaxconn"),
            ("tc qdisc replace dev tun0 root fq", "root fq"),
            ("sysctl -q net.ipv4.tcp_congestion_control=bbr", "bbr"),
            ("./nowhere.sh", "nowhere.sh"),
            ("rm -rf x", "rm -rf x"),
        ] {
            let Err(Stop::NotApplicable(found)) = environment.read_command(text, here) else {
                panic!("{text}")
            };
            assert!(found.contains(why), "{found}");
        }
    }
}
