#!/usr/bin/env python3
"""Jobs whose code is changed while they run, on a real Apache Kafka.

usage: reload_test.py [--long] [PART-OF-A-NAME]...  STREAMLUA_TEST_BROKER, see
                                                    run.py

Kafka to Kafka, exactly_once, with windows, state and timers. Each row has the
stamp of the version that made it, and each round must be of one version: the
one that the log says took over there. --long (or STREAMLUA_LONG=1): a reload
each second for a minute, all steps of a reload, 100 broken files, 1,000
reloads of one process. SEED in the environment repeats a run.
"""
import os
import sys

import kit
import reload_load  # noqa: F401 (each registers its tests)
import reload_broken  # noqa: F401
import reload_verbs  # noqa: F401

if __name__ == "__main__":
    if "--long" in sys.argv:
        os.environ["STREAMLUA_LONG"] = "1"
        sys.argv.remove("--long")
    sys.exit(kit.main(__doc__))
