#!/usr/bin/env python3
"""Exactly once on a real Apache Kafka: kill it anywhere, the rows are the same.

usage: eo_test.py [--long] [PART-OF-A-NAME]...    STREAMLUA_TEST_BROKER, see
                                                  run.py

Whole jobs through the program; what is visible under read_committed is
compared with what plain Python computes from the input. Crashes at fault
points need a program that was configured with --enable-test-mode: STREAMLUA,
or STREAMLUA_TEST_MODE beside it; without one those tests are skipped. --long
(or STREAMLUA_LONG=1) runs what a release runs: every pair of crashes, 200
kills, 400 rounds behind the relay, 20 broker crashes. SEED in the environment
repeats a run.
"""
import os
import sys

import kit
import eo_crash  # noqa: F401 (each registers its tests)
import eo_kill  # noqa: F401
import eo_proxy  # noqa: F401
import eo_zombie  # noqa: F401
import eo_damage  # noqa: F401
import eo_tenant  # noqa: F401

if __name__ == "__main__":
    if "--long" in sys.argv:
        os.environ["STREAMLUA_LONG"] = "1"
        sys.argv.remove("--long")
    sys.exit(kit.main(__doc__))
