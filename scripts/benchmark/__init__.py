"""The parts of scripts/bench, in the order in which they are of use:

paths.py     where things lie
smol.py      libsmol through ctypes
peer.py      llama.cpp through ctypes; gguf_files.py writes the files that it reads
same.py      whether both compute the same
limits.py    what the machine can do at most
measure.py   cases, rounds, medians; crowd.py: who else uses the machine
speed.py, start.py, programs.py, tokenizing.py, fork.py    the cases, by subject
targets.py   the rows of the table: which case, which bounds
report.py, plot.py                                          the table, the JSON file, the picture
"""
