#!/usr/bin/python3
"""House rules."""
