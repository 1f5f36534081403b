"""Presets of the methods, one module each: named sets of parameter values, and where the values come from.

A record has every value that its cell ran with. These modules are therefore no part of the source of a method: a
changed preset makes only the rows stale that are named after it.
"""
