//! Queues of NICs.

use pauseframe_schema::choices;

choices! {
    /// How the NIC queues
    pub enum NicQueue {
        /// A queue for each connection, queue pair and datagram source, served round robin, as under fq or on a card with a queue for each CPU
        PerFlow = "per_flow",
        /// A queue for each destination, served round robin (virtual output queues)
        PerDestination = "per_destination",
        /// One queue
        Fifo = "fifo",
    }
}
