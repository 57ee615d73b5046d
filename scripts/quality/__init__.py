"""The parts of scripts/measure-quality: the loss from fewer bits a weight, in smol and in llama.cpp.

checkpoint_gguf.py writes a checkpoint as a GGUF file; quantize.py makes llama.cpp's importance matrix and its
types from that; evaluate.py compares predictions; points.py measures all sizes of a model; report.py
prints the tables, ratios and verdicts; plot.py draws the picture."""
