"""Requests that are late, lost or cut on the way (proxy.py)."""
import random
import signal

import eo_kit
import kit
import proxy
from eo_kit import LONG, SEED, EoJob, Live, fault_binary, say
from eo_relay import SHARE, relay, run_under_faults
from kit import check, equal, test

ROUNDS = 400 if LONG else 40
NO_EPOCH = 47  # INVALID_PRODUCER_EPOCH
DONE = 0
# Every producer but that of the claim, which knows no output topics.
KEPT = "txn_keep_handle=2+"


@test
def late_lost_and_cut_requests_with_crashes_lose_and_double_nothing():
    rng = random.Random(SEED)
    say("SEED=%d" % SEED)
    servers, relayed = relay()
    with relayed, EoJob(live=Live(5000), servers=servers,
                        interval="150ms") as job:
        relayed.random(SEED, SHARE)
        crashes, own = run_under_faults(job, relayed, rng, ROUNDS)
        relayed.random(0, 0)
        say("%d rounds, %d faults, %d crashes, %d ends by itself" % (
            job.marker(), relayed.faults(), crashes, own))
        say(dict(relayed.counts))
        check(relayed.faults() > ROUNDS // 10, "too few faults")
        job.finish("--parallelism", 2)
        job.compare()


def late_commit(job, relayed):
    """EndTxn of a round held, and let go in that id's next transaction.

    The client is cut off, sends it again, and its round is committed. The
    held one is released when rows of the round after the next, which uses
    the same id, are in the broker. Returns what the broker answered to it.
    """
    job.start("--parallelism", 2)
    job.until_round(2)
    id = "streamlua-%s-0" % job.name
    held = relayed.hold(proxy.END_TXN, id=id)
    check(held.wait(), "no EndTxn")
    ended = relayed.count(proxy.END_TXN, id)
    check(relayed.wait_for(proxy.END_TXN, id, ended + 1),
          "the client did not send it again")
    rows = relayed.count(proxy.PRODUCE, id)
    check(relayed.wait_for(proxy.PRODUCE, id, rows + 1), "no rows of id 0")
    held.release()
    answer = held.answer()
    job.kill()
    return answer


@test
def a_commit_that_arrives_in_the_next_transaction_is_refused():
    servers, relayed = relay()
    with relayed, EoJob(live=Live(), servers=servers,
                        interval="800ms") as job:
        answer = late_commit(job, relayed)
        job.finish()
        equal(answer, NO_EPOCH, "answer to the late EndTxn")
        job.compare()


@test
def control_with_a_kept_producer_the_late_commit_doubles_rows():
    binary = fault_binary()
    for _ in range(3):  # the kill may come after the round's own commit
        servers, relayed = relay()
        with relayed, EoJob(live=Live(), servers=servers, binary=binary,
                            interval="1500ms") as job:
            job.start_fault = KEPT
            answer = late_commit(job, relayed)
            job.start_fault = None
            equal(answer, DONE, "answer to the late EndTxn")
            job.want = job.live.end()
            job.start("--bounded")
            code = job.ends()
            lost, doubled, _ = eo_kit.differences(job.rows(), job.want)
            say("exit %d, %d rows doubled, %d lost" % (code, len(doubled),
                                                       len(lost)))
            if doubled:
                return
    raise AssertionError("no doubled rows: the test above shows nothing")


@test
def control_with_kept_producers_random_faults_double_rows():
    if not LONG:
        raise kit.Skipped("only with --long")
    binary = fault_binary()
    doubles = []
    for series in range(3):
        rng = random.Random(SEED + series)
        servers, relayed = relay()
        with relayed, EoJob(live=Live(5000), servers=servers, binary=binary,
                            interval="150ms") as job:
            job.start_fault = KEPT
            relayed.random(SEED + series, SHARE, apis=(proxy.END_TXN,),
                           kinds=("late",))
            run_under_faults(job, relayed, rng, 150)
            relayed.random(0, 0)
            want = job.live.end()
            job.start("--bounded")
            job.ends()
            doubles.append(len(eo_kit.differences(job.rows(), want)[1]))
    say("rows doubled in each series:", doubles)
    check(any(doubles), "no doubled rows: the test above shows nothing")


@test
def each_kind_of_request_may_come_late_or_not_at_all():
    """Rows 1 and 2 of the list of broker tests: one mishap at a time."""
    cases = [(api, kind) for api in proxy.TRANSACTIONAL
             for kind in ("late", "drop", "answer")]
    if not LONG:
        cases = random.Random(SEED).sample(cases, 4)
    servers, relayed = relay()
    with relayed:
        for api, kind in cases:
            with EoJob(live=Live(5000), servers=servers) as job:
                job.start("--parallelism", 2)
                job.until_round(2)
                relayed.random(SEED, 0.3, apis=(api,), kinds=(kind,))
                job.until_round(job.marker() + 3, 120)
                relayed.random(0, 0)
                job.signal(signal.SIGTERM)
                code = job.ends()
                # In the middle of a restart there is no round to end with.
                check(code in (0, 143, -signal.SIGTERM), proxy.NAMES[api],
                      kind, "ended with", code, job.stderr()[-3000:])
                say(proxy.NAMES[api], kind, "ended with", code)
                job.finish()
                job.compare("%s %s" % (proxy.NAMES[api], kind))
