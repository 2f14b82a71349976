//! The contract that every congestion control of queue pairs keeps, built-in (see the test) or plug-in (`pauseframe cc check`).

use super::hpcc::{Quantum, Telemetry};
use super::{Acknowledgement, ControlParameters, Controller, RdmaControl};
use crate::queue_pair::QueuePairSettings;
use pauseframe_units::{Span, Time};

/// 100 Gb/s, 10 us, one switch.
const LINE: u64 = 100_000_000_000;
const PER_BYTE: Span = Span(8_000_000_000_000 / LINE);
const BASE_RTT: Span = Span::from_us(10);
const MTU: u32 = 4096;
const RANDOM_SEQUENCES: u64 = 32;
const STEPS_PER_SEQUENCE: usize = 300;
/// Round trips of congestion, and of an idle network.
const ROUNDS: u64 = 400;

/// A rule of the contract.
#[derive(Clone, Copy, Debug)]
pub struct ContractRule {
    /// Its name.
    pub name: &'static str,
    /// The requirement in one sentence.
    pub demand: &'static str,
    /// Checks a congestion control against the rule.
    pub check: fn(RdmaControl) -> Result<(), String>,
}

/// The rules. A plug-in that fails in one of them panics.
pub const CONTRACT_RULES: &[ContractRule] = &[
    ContractRule {
        name: "rate",
        demand: "Random acknowledgements, CNPs, losses and timers never lead to a rate of 0 or above the line rate, or to a \
                 window below a packet",
        check: check_random_sequences,
    },
    ContractRule {
        name: "deterministic",
        demand: "The same events give the same rates",
        check: check_determinism,
    },
    ContractRule {
        name: "own state",
        demand: "Two queue pairs that take turns have the rates that each has alone: nothing is kept outside of the state",
        check: check_isolation,
    },
    ContractRule {
        name: "congestion",
        demand: "A full queue (a CNP each 50 us, a hundred times the round trip, telemetry of a long queue) for 400 round trips lowers what \
                 the queue pair may send to less than half of the line",
        check: check_reaction_to_congestion,
    },
    ContractRule {
        name: "recovery",
        demand: "Without congestion it rises again within 100 ms",
        check: check_recovery,
    },
];

/// One queue pair's control, and what its events need.
#[derive(Clone)]
struct Player {
    control: Controller,
    settings: QueuePairSettings,
    now: Time,
    acked: u64,
    sent: u64,
    /// When the last acknowledgement came, and what the link of the queue had sent.
    acked_at: Time,
    hop_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Ack { packets: u64, rtt: Span, queue: u64 },
    Cnp,
    Loss,
    Time(Span),
}

impl Player {
    fn new(control: RdmaControl) -> Player {
        let settings = QueuePairSettings {
            mtu: MTU,
            line: LINE,
            control,
            parameters: ControlParameters {
                base_rtt: BASE_RTT,
                links: 2,
                quantum: Quantum::for_line(LINE),
                ..ControlParameters::default()
            },
            ..QueuePairSettings::default()
        };
        let mut player = Player {
            control: Controller::new(&settings),
            settings,
            now: Time::ZERO,
            acked: 0,
            sent: 0,
            acked_at: Time::ZERO,
            hop_bytes: 0,
        };
        player.control.start_plugin(0, 1, Time::ZERO);
        player
    }

    /// Bits per second that rate and window allow.
    fn allowed(&self, rtt: Span) -> u64 {
        let by_window = self.control.window(&self.settings).map_or(u64::MAX, |window| {
            u64::try_from(u128::from(window) * 8_000_000_000_000 / u128::from(rtt.0)).unwrap_or(u64::MAX)
        });
        self.control.rate().min(by_window)
    }

    fn play(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Ack { packets, rtt, queue } => self.acknowledge(packets, rtt, queue),
            Step::Cnp => self.control.on_cnp(self.now),
            Step::Loss => self.control.on_loss(self.now),
            Step::Time(span) => self.advance(span),
        }
        let rate = self.control.rate();
        if !(1..=LINE).contains(&rate) {
            return Err(format!("the rate is {rate} bit/s of a line of {LINE} after {step:?}"));
        }
        match self.control.own_window() {
            Some(0) => Err(format!("the window is 0 after {step:?}")),
            _ => Ok(()),
        }
    }

    fn advance(&mut self, span: Span) {
        let end = self.now + span;
        while self.control.deadline() <= end {
            self.now = self.now.max(self.control.deadline());
            self.control.on_timeout(self.now);
        }
        self.now = end;
    }

    fn acknowledge(&mut self, packets: u64, rtt: Span, queue: u64) {
        let bytes = packets * u64::from(MTU);
        // Ten acknowledgements like this one are under way: the round trip of this model.
        self.sent = self.sent.max(self.acked + 10 * bytes);
        self.control.on_sent(bytes, self.now);
        self.acked += bytes;
        let elapsed = self.now - std::mem::replace(&mut self.acked_at, self.now);
        // A queue keeps its link busy.
        self.hop_bytes += if queue > 0 { elapsed.0 / PER_BYTE.0 } else { bytes };
        let mut telemetry = Telemetry::EMPTY;
        let quantum = self.settings.parameters.quantum;
        telemetry.push(quantum.stamp((LINE / 1000) as u32, queue, self.hop_bytes, self.now.0 / 1000));
        self.control.on_ack(&Acknowledgement {
            now: self.now,
            packets,
            acked: self.acked,
            next: self.sent,
            acked_bytes: self.acked,
            sent_bytes: self.sent,
            rtt: Some(rtt),
            telemetry: &telemetry,
        });
    }

    /// A round trip with a full queue.
    fn congested_round(&mut self) -> Result<(), String> {
        for _ in 0..10 {
            self.play(Step::Time(Span::from_us(50)))?;
            self.play(Step::Cnp)?;
            self.play(Step::Ack { packets: 1, rtt: BASE_RTT * 100, queue: 2_000_000 })?;
        }
        Ok(())
    }

    fn quiet_round(&mut self) -> Result<(), String> {
        self.play(Step::Time(BASE_RTT))?;
        self.play(Step::Ack { packets: 1, rtt: BASE_RTT, queue: 0 })
    }
}

/// `SplitMix64` (Steele et al., OOPSLA 2014).
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn steps(&mut self) -> Vec<Step> {
        let step = |draws: &mut Draws| match draws.below(10) {
            0 | 1 => Step::Cnp,
            2 => Step::Loss,
            3 | 4 => Step::Time(Span::from_us(1 + draws.below(500))),
            _ => Step::Ack {
                packets: 1 + draws.below(16),
                rtt: BASE_RTT + Span::from_us(draws.below(500)),
                queue: draws.below(3) * draws.below(1_000_000),
            },
        };
        (0..STEPS_PER_SEQUENCE).map(|_| step(self)).collect()
    }
}

/// The rates and windows after each step.
fn play_all(control: RdmaControl, steps: &[Step]) -> Result<Vec<(u64, Option<u64>)>, String> {
    let mut player = Player::new(control);
    let outcome = |step: &Step| {
        player.play(*step)?;
        Ok((player.control.rate(), player.control.own_window()))
    };
    steps.iter().map(outcome).collect()
}

fn check_random_sequences(control: RdmaControl) -> Result<(), String> {
    (0..RANDOM_SEQUENCES).try_for_each(|seed| play_all(control, &Draws(seed).steps()).map(drop))
}

fn check_determinism(control: RdmaControl) -> Result<(), String> {
    let steps = Draws(1).steps();
    let (first, second) = (play_all(control, &steps)?, play_all(control, &steps)?);
    match first.iter().zip(&second).position(|(one, other)| one != other) {
        None => Ok(()),
        Some(index) => Err(format!(
            "after the same {} events the rate was {} bit/s once and {} bit/s then",
            index + 1,
            first[index].0,
            second[index].0
        )),
    }
}

fn check_isolation(control: RdmaControl) -> Result<(), String> {
    let (own, others) = (Draws(2).steps(), Draws(3).steps());
    let alone = play_all(control, &own)?;
    let (mut first, mut second) = (Player::new(control), Player::new(control));
    for (index, (step, other)) in own.iter().zip(&others).enumerate() {
        second.play(*other)?;
        first.play(*step)?;
        // A copy behaves like the original.
        first = first.clone();
        if (first.control.rate(), first.control.own_window()) != alone[index] {
            let (turns, alone) = (first.control.rate(), alone[index].0);
            return Err(format!(
                "after {} events the rate is {turns} bit/s beside another queue pair and {alone} bit/s alone",
                index + 1
            ));
        }
    }
    Ok(())
}

fn check_reaction_to_congestion(control: RdmaControl) -> Result<(), String> {
    let mut player = Player::new(control);
    (0..ROUNDS).try_for_each(|_| player.congested_round())?;
    let allowed = player.allowed(BASE_RTT * 100);
    if allowed < LINE / 2 { Ok(()) } else { Err(format!("it still may send {allowed} bit/s of {LINE}")) }
}

fn check_recovery(control: RdmaControl) -> Result<(), String> {
    let mut player = Player::new(control);
    (0..ROUNDS).try_for_each(|_| player.congested_round())?;
    let low = player.allowed(BASE_RTT);
    if low >= LINE {
        // It has not slowed down, which breaks another rule.
        return Ok(());
    }
    for _ in 0..10_000 {
        player.quiet_round()?;
        if player.allowed(BASE_RTT) > low {
            return Ok(());
        }
    }
    Err(format!("it still may send only {} bit/s", player.allowed(BASE_RTT)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::ControlName;
    use pauseframe_schema::value::Choice;

    #[test]
    fn built_in_controls_keep_the_contract() {
        let are_ordered = |name: &&(&str, ControlName)| !name.1.is_unordered() && name.1 != ControlName::None;
        for (name, control) in ControlName::NAMES.iter().filter(are_ordered) {
            for rule in CONTRACT_RULES {
                assert_eq!((rule.check)((*control).into()), Ok(()), "{name}: {}", rule.name);
            }
        }
    }

    #[test]
    fn line_rate_alone_breaks_the_rule_of_congestion_only() {
        assert!(check_reaction_to_congestion(ControlName::None.into()).is_err());
        assert_eq!(check_recovery(ControlName::None.into()), Ok(()));
    }

    /// In the 500 us of a round with a full queue a line of 100 Gb/s sends 6.25 MB, in a quiet one a packet.
    #[test]
    fn a_queue_keeps_its_link_busy() {
        let mut player = Player::new(ControlName::Hpcc.into());
        for (round, sent) in
            [(Player::congested_round as fn(&mut Player) -> _, 6_250_000), (Player::quiet_round, 4096)]
        {
            let before = player.hop_bytes;
            assert_eq!(round(&mut player), Ok(()));
            assert_eq!(player.hop_bytes - before, sent);
        }
    }

    /// In 10 us a line of 100 Gb/s carries 125,000 bytes, less than the first window of Swift.
    #[test]
    fn a_window_goes_once_in_a_round_trip() {
        let player = Player::new(ControlName::Swift.into());
        let window = player.control.own_window().expect("Swift has one");
        assert!(window > 125_000);
        assert_eq!(player.allowed(Span::from_us(10)), LINE);
        assert_eq!(player.allowed(Span::from_ms(1)), window * 8 * 1000);
    }
}
