"""The parts of scripts/measure-structured: what constraints cost and what they gain, on the real model.

tasks.py makes the items of two tasks; driver.py decodes token by token, with and without a constraint."""
