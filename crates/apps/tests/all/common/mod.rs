//! Samples of the text formats, and files that are removed when a test ends.

use pauseframe_apps::Application;
use pauseframe_apps::read::{ReadOptions, read};
use std::path::PathBuf;

/// A separate file for a test; it is removed when the test ends.
pub(crate) struct File(pub(crate) PathBuf);

impl File {
    pub(crate) fn new(name: &str, content: &[u8]) -> File {
        let path = std::env::temp_dir().join(format!("pauseframe-apps-{}-{name}", std::process::id()));
        std::fs::write(&path, content).expect("the folder for temporary files can be written");
        File(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).expect("it was made by this test");
    }
}

/// Reads bytes from a temporary file; error messages contain FILE instead of its name.
pub(crate) fn read_bytes(name: &str, bytes: &[u8]) -> Result<Application, String> {
    let file = File::new(name, bytes);
    read(&file.0, None, ReadOptions::default())
        .map_err(|error| error.to_string().replace(&file.0.display().to_string(), "FILE"))
}

pub(crate) const PMPI: &str = "\
# npb-pmpi-trace 1
rank 0 of 3
comm 0 3 all
2000 isend 0 1 1000 7
500 irecv 1 2 100 8
1000 waitall 0 1
0 barrier 0
end 250 compute_ns 3750 wall_ns 1 clock_overhead_ns 1
rank 1 of 3
comm 0 3 all
0 recv 0 4000 7
10000 send 2 500 9
0 barrier 0
end 0 compute_ns 10000 wall_ns 1 clock_overhead_ns 1
rank 2 of 3
comm 0 3 all
0 irecv 5 1 500 9
0 wait 5
1000 send 0 100 8
0 barrier 0
end 0 compute_ns 1000 wall_ns 1 clock_overhead_ns 1
";

pub(crate) const GOAL: &str = "\
num_ranks 2
/* rank 0 computes two things at once,
   and sends when one of them is done */
rank 0 {
l1: calc 1000
l2: calc 3000 cpu 1
l3: send 1000b to 1 tag 4
l3 requires l1
l4: recv 500b from 1 tag 5 nic 0
l5: calc 100 // after the message
l5 requires l4
l6: calc 700 cpu 1
l6 irequires l4
}
rank 1 {
a: recv 1000b from 0 tag 4
b: send 500b to 0 tag 5
b requires a
}
";

pub(crate) const TIME_INDEPENDENT: &str = "\
0 init
1 init
2 init
0 compute 5e3
0 isend 1 3 1000
0 send 2 4 500 1
1 irecv 0 3 1000
1 test 0 1 3
1 wait 0 1 3
0 waitall
2 recv -1 -1 0
2 reduce 100 2e3
0 reduce 100 0
1 reduce 100 0
0 finalize
1 finalize
2 finalize
";
