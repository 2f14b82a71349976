//! Several hosts to one at once: the first `senders` hosts that are not the receiver.

use super::{Listed, Maker, at};
use pauseframe_units::{Bytes, Span};

pub(super) fn build(senders: u32, receiver: &str, size: Bytes, start: Span, maker: &Maker) -> Listed {
    let receiver = maker.context.topology.find(receiver).expect("resolve has checked the receiver's name");
    let sources = maker.context.topology.hosts().filter(|host| *host != receiver).take(senders as usize);
    let flows: Vec<_> = sources.map(|source| maker.flow(source, receiver, size, at(start))).collect();
    assert_eq!(flows.len(), senders as usize, "n_to_one: more senders than other hosts");
    Listed::new(flows)
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{drain, make, racks};
    use super::*;
    use crate::spec::WorkloadKind;

    #[test]
    fn the_first_other_hosts_send_to_the_receiver() {
        let topology = racks(1, 6);
        let kind = WorkloadKind::NToOne {
            senders: 3,
            receiver: "h1".into(),
            size: Bytes::kb(1),
            start: Span::from_us(7),
        };
        let flows = drain(&mut *make(kind, &topology));
        let names: Vec<_> = flows.iter().map(|flow| topology.nodes()[flow.source].name.as_str()).collect();
        assert_eq!(names, ["h0", "h2", "h3"]);
        assert!(flows.iter().all(|f| Some(f.destination) == topology.find("h1") && f.size == 1000));
    }
}
