#!/usr/bin/env python3
"""Whole jobs through the program on a real Apache Kafka.

usage: jobs_test.py [PART-OF-A-NAME]...     STREAMLUA_TEST_BROKER, see run.py

What comes out is compared with what plain Python says must come out. SEED in
the environment repeats the input of a run.
"""
import sys

import kit
import jobs_values  # noqa: F401 (each registers its tests)
import jobs_quarantine  # noqa: F401
import jobs_time  # noqa: F401
import jobs_faults

if __name__ == "__main__":
    if kit.BROKER is not None and len(sys.argv) == 1:
        jobs_faults.begin_early()
    sys.exit(kit.main(__doc__))
