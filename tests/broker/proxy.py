"""A relay between Kafka clients and a broker that knows requests.

    with Proxy(listen, to) as p:           # "host:port" each
        p.random(seed, 0.08)               # mishaps for one request of 12
        held = p.hold(END_TXN, id="x-0")   # the next such request
        held.wait(); ...; held.release(); held.answer()

It stands between a job and the broker's second listener (broker.py: files
`proxy` and `proxied`), which is advertised as the relay's own address, so
every connection of a client goes through it. Frames are forwarded as they
are; only what is chosen by API key is touched. What can be done to a request:

    late    the client's connection is cut; the request reaches the broker
            later, on the connection it came on
    drop    the request is swallowed and the connection cut
    answer  the request reaches the broker, the answer is swallowed and the
            connection cut
    cut     the connection is cut before the request
    delay   it waits, and all behind it on its connection

One thread for each direction of a connection. The rest of a test's threads
may call anything here.
"""
import collections
import random
import socket
import struct
import threading
import time

PRODUCE, FETCH = 0, 1
INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN = 22, 24, 26
TRANSACTIONAL = (PRODUCE, INIT_PRODUCER_ID, ADD_PARTITIONS, END_TXN)
NAMES = {PRODUCE: "Produce", INIT_PRODUCER_ID: "InitProducerId",
         ADD_PARTITIONS: "AddPartitionsToTxn", END_TXN: "EndTxn"}
HELD_S = 120  # a held request that nobody releases goes on after this

Request = collections.namedtuple("Request", "api version correlation id")


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def read_exactly(sock, size):
    out = bytearray()
    while len(out) < size:
        more = sock.recv(size - len(out))
        if not more:
            return None
        out += more
    return bytes(out)


def read_frame(sock):
    """One frame with its length, or None at the end."""
    head = read_exactly(sock, 4)
    if head is None:
        return None
    body = read_exactly(sock, struct.unpack(">i", head)[0])
    return None if body is None else head + body


def parse(frame):
    """The header of a request; id = its transactional id, or None."""
    api, version, correlation = struct.unpack_from(">hhi", frame, 4)
    found = None
    if api in TRANSACTIONAL:
        at = 12
        size = struct.unpack_from(">h", frame, at)[0]
        at += 2 + max(0, size)
        if api == INIT_PRODUCER_ID and version >= 2:
            at += 1  # flexible: no tags, then a compact string
            size = frame[at] - 1
            at += 1
        else:
            size = struct.unpack_from(">h", frame, at)[0]
            at += 2
        if size >= 0:
            found = frame[at:at + size].decode(errors="replace")
    return Request(api, version, correlation, found)


class Held:
    """A request that was taken off its way."""

    def __init__(self, api, id, skip):
        self.api, self.id, self.skip = api, id, skip
        self.taken = threading.Event()
        self.go = threading.Event()
        self.answered = threading.Event()
        self.frame = None

    def matches(self, r):
        if self.taken.is_set() or r.api != self.api or \
                (self.id is not None and r.id != self.id):
            return False
        self.skip -= 1
        return self.skip < 0

    def wait(self, wait_s=60):
        """Whether such a request came."""
        return self.taken.wait(wait_s)

    def release(self):
        self.go.set()

    def answer(self, wait_s=30):
        """The error code the broker gave, or None. EndTxn: 0 = it did it."""
        if not self.answered.wait(wait_s) or self.frame is None:
            return None
        return struct.unpack_from(">h", self.frame, 12)[0]


class Link:
    """One connection of a client and the one behind it."""

    def __init__(self, proxy, client):
        self.proxy, self.client = proxy, client
        self.broker = socket.create_connection(proxy.to, 5)
        self.broker.settimeout(None)
        for s in (self.client, self.broker):
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.swallow = set()  # correlation ids whose answers vanish
        self.seen = {}        # correlation id -> request, if transactional
        self.late = None      # the request this link ends with

    def close(self, sock):
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def run(self):
        threading.Thread(target=self.down, daemon=True).start()
        try:
            self.up()
        except OSError:
            pass
        self.close(self.client)
        if self.late is None:
            self.close(self.broker)

    def up(self):
        while True:
            frame = read_frame(self.client)
            if frame is None:
                return
            request = parse(frame)
            if request.api in TRANSACTIONAL:
                self.seen[request.correlation] = request
            what, value = self.proxy.decide(request)
            if what == "late":
                self.late = (request.correlation, value)
                threading.Thread(target=self.send_late, args=(frame,),
                                 daemon=True).start()
                return
            if what in ("drop", "cut"):
                return
            if what == "answer":
                self.swallow.add(request.correlation)
            if what == "delay":
                time.sleep(value)
            self.broker.sendall(frame)

    def send_late(self, frame):
        held = self.late[1]
        if isinstance(held, Held):
            held.taken.set()
            held.go.wait(HELD_S)
        else:
            time.sleep(held)
        try:
            self.broker.sendall(frame)
        except OSError:
            self.end_late(None)

    def end_late(self, frame):
        self.close(self.broker)
        held = self.late[1]
        if isinstance(held, Held):
            held.frame = frame
            held.answered.set()

    def down(self):
        try:
            while True:
                frame = read_frame(self.broker)
                if frame is None:
                    break
                correlation = struct.unpack_from(">i", frame, 4)[0]
                if self.late is not None:
                    if correlation == self.late[0]:
                        self.end_late(frame)
                        return
                    continue
                if correlation in self.swallow:
                    break
                request = self.seen.pop(correlation, None)
                self.client.sendall(frame)
                if request is not None:
                    self.proxy.answered(request)
        except OSError:
            pass
        if self.late is not None:
            self.end_late(None)
        self.close(self.client)
        self.close(self.broker)


class Proxy:
    """The relay; `with` ends it."""

    def __init__(self, listen, to):
        self.to = address(to)
        self.lock = threading.Lock()
        self.wanted = []          # Held that wait for their request
        self.rng, self.share, self.apis = None, 0.0, ()
        self.kinds = ()
        self.counts = collections.Counter()
        self.done = collections.Counter()  # (api, id) -> answers passed on
        self.changed = threading.Condition(self.lock)
        self.links = set()
        self.server = socket.create_server(address(listen), backlog=64)
        self.acceptor = threading.Thread(target=self.accept, daemon=True)
        self.acceptor.start()

    def accept(self):
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,),
                             daemon=True).start()

    def serve(self, client):
        try:
            link = Link(self, client)
        except OSError:  # the broker is away
            client.close()
            return
        with self.lock:
            self.links.add(link)
        link.run()
        with self.lock:
            self.links.discard(link)

    def decide(self, request):
        """(what, value) of a request that came."""
        with self.lock:
            for held in self.wanted:
                if held.matches(request):
                    self.wanted.remove(held)
                    self.counts["held"] += 1
                    return "late", held
            if self.rng is None or request.api not in self.apis or \
                    request.id is None or self.rng.random() >= self.share:
                return "pass", None
            kind = self.rng.choice(self.kinds)
            value = None
            if kind in ("late", "delay"):
                value = self.rng.uniform(0.02, 1.2 if kind == "late" else 0.3)
            self.counts[NAMES[request.api] + " " + kind] += 1
            return kind, value

    def answered(self, request):
        with self.changed:
            self.done[request.api, request.id] += 1
            self.changed.notify_all()

    def random(self, seed, share, apis=TRANSACTIONAL,
               kinds=("late", "drop", "answer", "cut", "delay")):
        """From now on do one of `kinds` to that share of such requests.

        share 0 ends it. Only requests with a transactional id are touched.
        """
        with self.lock:
            self.rng = random.Random(seed) if share else None
            self.share, self.apis, self.kinds = share, apis, kinds

    def hold(self, api, id=None, skip=0):
        """Take the next such request, after `skip` others, off its way."""
        held = Held(api, id, skip)
        with self.lock:
            self.wanted.append(held)
        return held

    def count(self, api, id):
        """How many such requests were answered."""
        with self.lock:
            return self.done[api, id]

    def wait_for(self, api, id, count, wait_s=60):
        """Wait until `count` such requests were answered."""
        with self.changed:
            return self.changed.wait_for(
                lambda: self.done[api, id] >= count, wait_s)

    def faults(self):
        return sum(self.counts.values())

    def cut_all(self):
        """Cut every connection."""
        with self.lock:
            links = list(self.links)
        for link in links:
            link.close(link.client)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self.lock:
            for held in self.wanted:
                held.go.set()
        self.server.shutdown(socket.SHUT_RDWR)  # wakes the acceptor
        self.acceptor.join()
        self.server.close()
        self.cut_all()


# --- requests of the test's own ------------------------------------------------

def init_producer_id(bootstrap, id, timeout_ms=60000):
    """Take a new epoch of a transactional id: aborts what is open.

    To its producer that looks as if the transaction had timed out. Returns
    the error code (51: a commit or abort is under way, ask again).
    """
    name = id.encode()
    body = struct.pack(">hhih4s", INIT_PRODUCER_ID, 1, 7, 4, b"test") + \
        struct.pack(">h", len(name)) + name + struct.pack(">i", timeout_ms)
    with socket.create_connection(address(bootstrap), 5) as s:
        s.settimeout(10)
        s.sendall(struct.pack(">i", len(body)) + body)
        frame = read_frame(s)
    return struct.unpack_from(">h", frame, 12)[0]
