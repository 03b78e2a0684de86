#!/usr/bin/env python3
"""The blocks of the documents that need a broker (tests/sys/test_docs.py)."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DOCS = os.path.join(HERE, "..", "sys", "test_docs.py")

if __name__ == "__main__":
    os.execv(sys.executable,
             [sys.executable, DOCS, "--broker", "-v"] + sys.argv[1:])
