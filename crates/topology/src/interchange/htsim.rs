//! htsim's `.topo` (Handley et al., SIGCOMM 2017, and the Ultra Ethernet fork), which describes a fat tree by
//! its tiers.
//!
//! Tier 0 holds the switches with hosts; the keys `Downlink_*` describe the links below a tier, and `Bundle`
//! is the number of parallel links. With three tiers all pods are equal, and core switch c is linked to
//! aggregation switch c mod (aggregation switches per pod) of every pod. The reader skips queue sizes and
//! switch latency (a switch of this simulator forwards without latency), with a note.

use super::draft::{Draft, Partial, number};
use super::{Defaults, Flaw, Import};
use crate::NodeKind;
use crate::generate::LINKS_MAX;
use pauseframe_units::{BitRate, NodeId, Span};

/// The values of one tier in the file.
#[derive(Clone, Copy, Debug, Default)]
struct Tier {
    seen: bool,
    radix_down: u64,
    radix_up: u64,
    bundle: Option<u64>,
    oversubscribed: Option<u64>,
    below: Partial,
}

impl Tier {
    fn bundle(&self) -> u64 {
        self.bundle.unwrap_or(1)
    }
}

#[derive(Debug, Default)]
struct Parameters {
    nodes: u64,
    tiers: u64,
    pod_size: u64,
    tier: [Tier; 3],
    left_out: Vec<String>,
}

pub(super) fn read(text: &str, defaults: Defaults) -> Result<Import, Flaw> {
    let mut parameters = parse(text)?;
    let fabric = Fabric::of(&parameters).map_err(Flaw::of_file)?;
    let mut draft = Draft::new(defaults);
    draft.notes.append(&mut parameters.left_out);
    for (i, tier) in parameters.tier.iter().enumerate() {
        let ratio = tier.radix_down.checked_div(tier.radix_up);
        if let (Some(said), Some(is)) = (tier.oversubscribed, ratio)
            && said != is
        {
            draft.notes.push(format!(
                "tier {i}: its radix says {is}:1, not Oversubscribed {said}; the radix was taken"
            ));
        }
    }
    fabric.build(&parameters, &mut draft).map_err(Flaw::of_file)?;
    Ok(draft.finish())
}

fn parse(text: &str) -> Result<Parameters, Flaw> {
    let mut parameters = Parameters::default();
    let mut current: Option<usize> = None;
    for (line, text) in text.lines().enumerate().map(|(i, line)| (i + 1, line.trim())) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let (key, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let key = key.to_ascii_lowercase();
        let value: u64 = number(value.trim(), &format!("a value for {key:?}")).map_err(Flaw::on(line))?;
        match (key.as_str(), current) {
            ("nodes", None) => parameters.nodes = value,
            ("tiers", None) => parameters.tiers = value,
            ("podsize", None) => parameters.pod_size = value,
            ("tier", _) => {
                let tier = usize::try_from(value).ok().filter(|tier| *tier < 3);
                current =
                    Some(tier.ok_or_else(|| {
                        Flaw::line(line, format!("there is no tier {value}: write 0 to 2"))
                    })?);
                parameters.tier[current.unwrap_or(0)].seen = true;
            }
            (_, Some(tier)) => {
                if let Some(left_out) =
                    set(&mut parameters.tier[tier], &key, value).map_err(Flaw::on(line))?
                {
                    parameters.left_out.push(format!("line {line}: {left_out}"));
                }
            }
            (_, None) => {
                let message =
                    format!("{key:?} is not known before the first tier: write nodes, tiers or podsize");
                return Err(Flaw::line(line, message));
            }
        }
    }
    Ok(parameters)
}

/// Sets a value of a tier; returns a note if this simulator ignores the value.
fn set(tier: &mut Tier, key: &str, value: u64) -> Result<Option<String>, String> {
    let scaled = |scale: u64| value.checked_mul(scale).ok_or(format!("{value} is too large"));
    match key {
        "downlink_speed_gbps" => tier.below.rate = Some(BitRate(scaled(1_000_000_000)?)),
        "downlink_latency_ns" => tier.below.delay = Some(Span(scaled(1000)?)),
        "radix_down" => tier.radix_down = value,
        "radix_up" => tier.radix_up = value,
        "bundle" => tier.bundle = Some(value),
        "oversubscribed" => tier.oversubscribed = Some(value),
        "switch_latency_ns" if value == 0 => {}
        "switch_latency_ns" | "queue_up" | "queue_down" => {
            return Ok(Some(format!("{key} {value} was left out")));
        }
        _ => {
            return Err(format!(
                "{key:?} is not known: write downlink_speed_gbps, downlink_latency_ns, radix_down, radix_up, \
                 bundle, oversubscribed, switch_latency_ns, queue_up or queue_down"
            ));
        }
    }
    Ok(None)
}

/// Number of switches, hosts and links of each kind.
#[derive(Debug)]
struct Fabric {
    pods: u64,
    tors: u64,
    aggs: u64,
    cores: u64,
}

impl Fabric {
    /// Computes the counts; returns a message for inconsistent parameters.
    fn of(parameters: &Parameters) -> Result<Fabric, String> {
        let Parameters { nodes, tiers, pod_size, tier: [tor, agg, core], .. } = parameters;
        if *nodes == 0 || !(2..=3).contains(tiers) || *pod_size == 0 {
            return Err("the header must say nodes, tiers (2 or 3) and podsize, each above 0".to_owned());
        }
        if let Some(tier) = (0..*tiers as usize).find(|i| !parameters.tier[*i].seen) {
            return Err(format!("there is no tier {tier}: add its section"));
        }
        let divide = |a: u64, b: u64, what: &str| match a.checked_rem(b) {
            Some(0) => Ok(a / b),
            _ => Err(format!("{what}: {a} is not a multiple of {b}")),
        };
        let pods = divide(*nodes, *pod_size, "nodes and podsize")?;
        let tors = divide(*pod_size, tor.radix_down, "podsize and radix_down of tier 0")?;
        let aggs = divide(tor.radix_up, agg.bundle(), "radix_up of tier 0 and bundle of tier 1")?;
        let same = |is: u64, wanted: u64, what: &str| {
            if is == wanted {
                Ok(())
            } else {
                Err(format!("{what} is {is}; the other tiers make it {wanted}"))
            }
        };
        let wanted = tors.saturating_mul(agg.bundle());
        let mut links = nodes.saturating_add(pods.saturating_mul(tors).saturating_mul(tor.radix_up));
        let mut cores = 0;
        if *tiers == 2 {
            same(pods, 1, "the number of pods of a leaf-spine (nodes / podsize)")?;
        } else {
            let each = divide(agg.radix_up, core.bundle(), "radix_up of tier 1 and bundle of tier 2")?;
            cores = each.saturating_mul(aggs);
            same(core.radix_down, pods.saturating_mul(core.bundle()), "radix_down of tier 2")?;
            links = links.saturating_add(pods.saturating_mul(aggs).saturating_mul(agg.radix_up));
        }
        same(agg.radix_down, wanted, "radix_down of tier 1")?;
        if links > LINKS_MAX {
            return Err(format!("this fabric would have {links} links; at most {LINKS_MAX} are allowed"));
        }
        Ok(Fabric { pods, tors, aggs, cores })
    }

    fn build(&self, parameters: &Parameters, draft: &mut Draft) -> Result<(), String> {
        let [tor, agg, core] = parameters.tier;
        let flat = parameters.tiers == 2;
        let mut add = |name: String, kind, level| draft.node(&name, kind, Some(level));
        let hosts: Vec<_> = (0..parameters.nodes)
            .map(|i| add(format!("host{i}"), NodeKind::Host, 0))
            .collect::<Result<_, _>>()?;
        let mut pods = |prefix: &str, flat_prefix: &str, each: u64, level| {
            let places = (0..self.pods).flat_map(|pod| (0..each).map(move |i| (pod, i)));
            let name = |pod, i| if flat { format!("{flat_prefix}{i}") } else { format!("{prefix}{pod}_{i}") };
            places.map(|(pod, i)| add(name(pod, i), NodeKind::Switch, level)).collect::<Result<Vec<_>, _>>()
        };
        let tors = pods("edge", "leaf", self.tors, 1)?;
        let aggs = pods("agg", "spine", self.aggs, 2)?;
        let cores: Vec<_> = (0..self.cores)
            .map(|i| add(format!("core{i}"), NodeKind::Switch, 3))
            .collect::<Result<_, _>>()?;

        let mut link = |a: NodeId, b: NodeId, tier: Tier| {
            for _ in 0..tier.bundle() {
                draft.link([a, b], [tier.below; 2]);
            }
        };
        for (i, host) in hosts.iter().enumerate() {
            link(*host, tors[i / tor.radix_down as usize], Tier { bundle: None, ..tor });
        }
        for (i, tor) in tors.iter().enumerate() {
            let pod = i / self.tors as usize;
            aggs.iter()
                .skip(pod * self.aggs as usize)
                .take(self.aggs as usize)
                .for_each(|a| link(*tor, *a, agg));
        }
        for (i, agg) in aggs.iter().enumerate() {
            let own = cores.iter().skip(i % self.aggs as usize).step_by(self.aggs as usize);
            own.for_each(|c| link(*agg, *c, core));
        }
        Ok(())
    }
}
