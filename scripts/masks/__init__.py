"""The parts of scripts/measure-masks: MaskBench's protocol for smol and three other engines.

vocabulary.py makes the tokenizers and smol's blobs; cases.py reads the data set and writes its instances in
the order of the schema; engines.py calls the engines; worker.py measures one engine in a process of its own;
report.py counts the outcomes and prints the table."""
