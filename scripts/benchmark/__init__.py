"""The modules of scripts/bench:

paths.py     paths and common sizes
smol.py      libsmol through ctypes
peer.py      llama.cpp through ctypes; gguf_files.py writes the files that it reads
fork.py      ik_llama.cpp's speed
pairs.py     both sides' files of published shapes with random weights, for scripts/measure-shapes
same.py      checks that both compute the same
limits.py    the limits of the machine
measure.py   cases, rounds, medians; crowd.py: load from other processes
speed.py, start.py, programs.py, tokenizing.py             the cases, by subject
targets.py   the rows of the table: their cases and bounds
report.py, plot.py                                          the table, the JSON file, the picture
"""
