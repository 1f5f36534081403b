"""Bytes on disk: atomic files, locks, canonical JSON, arrays, artifacts, and digests of source code."""
