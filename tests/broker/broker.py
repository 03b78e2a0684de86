#!/usr/bin/env python3
"""One Apache Kafka broker for the tests: start, stop, kill, restart.

usage: broker.py start DIR | stop DIR | kill DIR | restart DIR

start   makes DIR (data, log, configuration), starts a one-node KRaft broker
        on free loopback ports, waits until it answers, prints
        HOST:PORT. In DIR afterwards: bootstrap, sasl (address of a listener
        with SASL PLAIN and SCRAM, user alice, password secret), proxied (a
        listener that is advertised as the address in the file proxy, for a
        relay between the two: proxy.py), pid.
stop    ends it; DIR stays (its log is DIR/broker.log).
kill    ends it at once (kill -9).
restart starts it again on the same data and ports.

The jars come by Maven once and are kept in
${XDG_CACHE_HOME:-~/.cache}/streamlua-kafka. Nothing else is touched, and
only the process that was started is ended.
"""
import base64
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

VERSION = "4.3.1"
CLUSTER_ID = "c3RyZWFtbHVhLXRlc3QtMQ"
START_S = 90

POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>streamlua</groupId>
  <artifactId>test-broker</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-tools</artifactId>
      <version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""

# Short sessions let a killed broker back in after seconds; timed-out
# transactions are swept every second.
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{ctl}
listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl},\
PROXY://127.0.0.1:{proxied},CONTROLLER://127.0.0.1:{ctl}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl},\
PROXY://127.0.0.1:{proxy}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,\
PROXY:PLAINTEXT,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl.plain.sasl.jaas.config=org.apache.kafka.common.security\
.plain.PlainLoginModule required user_alice="secret";
listener.name.sasl.scram-sha-256.sasl.jaas.config=org.apache.kafka.common\
.security.scram.ScramLoginModule required;
log.dirs={dir}/data
num.network.threads=2
num.io.threads=2
log.cleaner.dedupe.buffer.size=4194304
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
broker.session.timeout.ms=1000
broker.heartbeat.interval.ms=200
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
log.retention.check.interval.ms=1000
log.retention.ms=-1
log.initial.task.delay.ms=1000
file.delete.delay.ms=1000
"""


def cache_dir():
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return pathlib.Path(base).expanduser() / "streamlua-kafka" / VERSION


# Where distributions keep the certificates that curl and git believe.
BUNDLES = (os.environ.get("SSL_CERT_FILE", ""),
           "/etc/ssl/certs/ca-certificates.crt",
           "/etc/pki/tls/certs/ca-bundle.crt")
STORE_PASSWORD = "changeit"


def write_trust_store(path):
    """Write the system's certificates as a Java trust store (JKS).

    Java believes a store of its own, which lacks what an administrator (say
    of a proxy that looks into TLS) added to the system's bundle. Returns
    whether there was a bundle.
    """
    bundle = next((b for b in BUNDLES if b and os.path.exists(b)), None)
    if bundle is None:
        return False
    text = pathlib.Path(bundle).read_text(errors="replace")
    certs = [base64.b64decode("".join(body.split())) for body in re.findall(
        "-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", text,
        re.S)]
    out = struct.pack(">III", 0xFEEDFEED, 2, len(certs))
    for i, cert in enumerate(certs):
        alias, kind = b"c%d" % i, b"X.509"
        out += struct.pack(">IH", 2, len(alias)) + alias
        out += struct.pack(">QH", 0, len(kind)) + kind
        out += struct.pack(">I", len(cert)) + cert
    seal = hashlib.sha1(STORE_PASSWORD.encode("utf-16-be") +
                        b"Mighty Aphrodite" + out).digest()
    pathlib.Path(path).write_bytes(out + seal)
    return True


class Unavailable(Exception):
    """There can be no broker here: no Java, no Maven, or no jars."""


def fetch(home, part):
    """Have Maven copy the broker's jars into `part`."""
    env = dict(os.environ)
    store = home / "trust.jks"
    if write_trust_store(store):
        tls = "-Djavax.net.ssl.trustStore"
        env["MAVEN_OPTS"] = " ".join((
            env.get("MAVEN_OPTS", ""), f"{tls}={store}", f"{tls}Type=JKS",
            f"{tls}Password={STORE_PASSWORD}"))
    try:
        subprocess.run(
            ["mvn", "-q", "-B", "-f", str(home / "pom.xml"),
             "dependency:copy-dependencies", "-DincludeScope=runtime",
             f"-DoutputDirectory={part}"],
            check=True, stdout=sys.stderr, env=env)
    except (OSError, subprocess.CalledProcessError) as e:
        raise Unavailable(f"Maven cannot fetch Apache Kafka: {e}") from e


def jars():
    """The folder with the broker's jars; fetched when it is not there."""
    home = cache_dir()
    libs = home / "libs"
    if libs.is_dir():
        return libs
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if libs.is_dir():
            return libs
        part = home / "part"
        shutil.rmtree(part, ignore_errors=True)
        (home / "pom.xml").write_text(POM)
        print("broker: fetching Apache Kafka", VERSION, "by Maven",
              file=sys.stderr)
        fetch(home, part)
        part.rename(libs)
    return libs


def free_ports(count):
    """Ports that are free now (all held open until all are known)."""
    socks = [socket.socket() for _ in range(count)]
    for s in socks:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in socks]
    for s in socks:
        s.close()
    return ports


def answers(port):
    """Whether a metadata request finds a broker."""
    body = struct.pack(">hhih4si", 3, 1, 1, 4, b"test", 0)
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as s:
            s.settimeout(2)
            s.sendall(struct.pack(">i", len(body)) + body)
            head = b""
            while len(head) < 12:
                more = s.recv(12 - len(head))
                if not more:
                    return False
                head += more
            return struct.unpack(">iii", head)[2] >= 1
    except OSError:
        return False


def java(*args):
    return ["java", "-Xmx256m", "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", *args]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Broker:
    """A broker in `dir`; usable as a context manager."""

    def __init__(self, dir):
        self.dir = pathlib.Path(dir).absolute()
        self.proc = None

    def start(self):
        shutil.rmtree(self.dir, ignore_errors=True)
        self.dir.mkdir(parents=True)
        port, sasl, ctl, proxied, proxy = free_ports(5)
        conf = self.dir / "server.properties"
        conf.write_text(PROPERTIES.format(port=port, sasl=sasl, ctl=ctl,
                                          proxied=proxied, proxy=proxy,
                                          dir=self.dir))
        with open(self.dir / "format.log", "wb") as log:
            subprocess.run(
                java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID,
                     "-c", str(conf), "--add-scram",
                     "SCRAM-SHA-256=[name=alice,password=secret]"),
                check=True, stdout=log, stderr=log)
        (self.dir / "bootstrap").write_text(f"127.0.0.1:{port}")
        (self.dir / "sasl").write_text(f"127.0.0.1:{sasl}")
        (self.dir / "proxied").write_text(f"127.0.0.1:{proxied}")
        (self.dir / "proxy").write_text(f"127.0.0.1:{proxy}")
        return self.restart()

    @property
    def bootstrap(self):
        return (self.dir / "bootstrap").read_text()

    @property
    def sasl(self):
        return (self.dir / "sasl").read_text()

    def restart(self):
        with open(self.dir / "broker.log", "ab") as log:
            self.proc = subprocess.Popen(
                java("kafka.Kafka", str(self.dir / "server.properties")),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.dir, start_new_session=True)
        (self.dir / "pid").write_text(str(self.proc.pid))
        port = int(self.bootstrap.rsplit(":", 1)[1])
        until = time.monotonic() + START_S
        while not answers(port):
            if self.proc.poll() is not None or time.monotonic() > until:
                self.kill()
                raise SystemExit(f"broker: it did not start, see "
                                 f"{self.dir}/broker.log")
            time.sleep(0.1)
        return self.bootstrap

    def end(self, sig, wait_s):
        """Send `sig`, then wait until the process is gone."""
        try:
            pid = int((self.dir / "pid").read_text())
        except (OSError, ValueError):
            return
        try:
            os.kill(pid, sig)
        except ProcessLookupError:
            pass
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            if self.proc is not None:
                self.proc.poll()
            if not alive(pid):
                (self.dir / "pid").unlink(missing_ok=True)
                return
            time.sleep(0.05)
        if sig != signal.SIGKILL:
            self.end(signal.SIGKILL, 10)

    def stop(self):
        self.end(signal.SIGTERM, 15)

    def kill(self):
        self.end(signal.SIGKILL, 10)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("start", "stop", "kill",
                                                 "restart"):
        print(__doc__, file=sys.stderr)
        return 64
    answer = getattr(Broker(sys.argv[2]), sys.argv[1])()
    if answer:
        print(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
