use std::io::{BufRead, BufReader, Lines, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The example of this name, which was built along with the tests.
pub(crate) fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    // target/debug/deps/kafka-0123456789abcdef
    test.ancestors().nth(2).expect("a test lies in a folder of its profile").join("examples").join(name)
}

/// Three brokers in a process of their own, which outlives the consumers and ends with this.
#[derive(Debug)]
pub(crate) struct Brokers {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    pub(crate) addresses: String,
}

impl Brokers {
    pub(crate) const TOPIC: &str = "hits";

    pub(crate) fn start(partitions: i32) -> Self {
        let mut child = Command::new(example("broker"))
            .args([Self::TOPIC, &partitions.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example `broker` is built");
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut output = BufReader::new(output).lines();
        let addresses = output.next().expect("it tells its addresses").expect("UTF-8");
        Self { child, input, output, addresses }
    }

    pub(crate) fn command(&mut self, command: &str) {
        writeln!(self.input, "{command}").expect("the brokers run");
        let answer = self.output.next().expect("the brokers run").expect("UTF-8");
        assert_eq!(answer, format!("done: {command}"));
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
