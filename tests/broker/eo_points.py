"""The fault points of a round and of recovery, and what each leads to."""

# What the restart after a crash at this point must say of the round that was
# under way (doc/internals/exactly-once.md has the same table).
RUN, DISCARD, COMPLETE, ANY = "run", "discard", "complete", "any"
SAYS = {"discard": "was not committed: discarded",
        "complete": "was committed: completed"}
# name, which hit (claims hit the txn_ points too), outcome
POINTS = (
    ("recover_begin", 1, RUN),
    ("txn_init", 1, RUN),
    ("txn_init", 2, RUN),
    ("recover_decided", 1, RUN),
    ("txn_claimed", 1, RUN),
    ("restore_begin", 1, RUN),
    ("restore_done", 1, RUN),
    ("round_begin", 3, RUN),
    ("round_frozen", 3, RUN),
    ("ckpt_prepare", 3, RUN),
    ("store_write", 3, RUN),
    ("store_written", 3, DISCARD),
    ("txn_marker", 4, DISCARD),
    ("txn_commit", 4, DISCARD),
    ("txn_committed", 4, COMPLETE),
    ("store_complete", 3, COMPLETE),
    ("store_completed", 3, RUN),
    ("sink_committed", 3, RUN),
    ("source_committed", 3, RUN),
    ("round_done", 3, RUN),
    ("txn_renew", 2, RUN),
)
# Points a restart meets before its first round is done.
SECOND = ("recover_begin", "txn_init", "recover_decided", "store_complete",
          "store_completed", "txn_marker", "txn_commit", "txn_committed",
          "txn_claimed", "restore_begin", "restore_done", "round_begin",
          "round_frozen", "ckpt_prepare", "store_write", "store_written",
          "sink_committed", "source_committed", "round_done", "txn_renew")
# Those that can also fail instead of kill: the job recovers inside.
FAILING = (("txn_marker", 3), ("txn_commit", 3), ("txn_committed", 3),
           ("txn_renew", 2), ("txn_init", 6), ("txn_claimed", 1))
