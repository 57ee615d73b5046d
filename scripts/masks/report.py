"""The outcomes of one engine, as rows of a table and as JSON."""

import numpy as np

SHOWN = 80  # characters of a text before the token that is refused


def judge(case, ids, outcome, decode):
    """Returns what is kept of a schema's outcome, for the JSON file."""
    kept = {"result": "passed", "compile_us": outcome.compile_ns / 1e3, "masks": len(outcome.masks_ns)}
    if outcome.masks_ns:
        kept |= {"first_us": outcome.first_ns / 1e3, "mean_us": mean(outcome.masks_ns) / 1e3}
        kept |= {"max_us": max(outcome.masks_ns) / 1e3}
    if outcome.error or outcome.died:
        result = "compile error" if outcome.error else "died"
        return kept | {"result": result, "message": (outcome.error or outcome.died)[:500]}
    for i, ((text, valid), at) in enumerate(zip(case.tests, outcome.refused_at, strict=True)):
        if valid and at is not None:
            refused = decode(ids[i][at : at + 1]) or "(the end)"
            entry = {"instance": i, "after": decode(ids[i][:at])[-SHOWN:], "refused": refused, "text": text}
            kept.setdefault("valid_rejected", []).append(entry)
        if not valid and at is None:
            kept.setdefault("invalid_accepted", []).append({"instance": i, "text": text})
    if "valid_rejected" in kept or "invalid_accepted" in kept:
        kept["result"] = "wrong"
    return kept


def mean(values):
    return sum(values) / len(values)


class Tally:
    """All outcomes of one engine."""

    def __init__(self):
        self.schemas, self.masks, self.advances = {}, [], []

    def add(self, name, kept, outcome):
        self.schemas[name] = kept
        self.masks.append(np.array(outcome.masks_ns, np.int64))
        self.advances.append(np.array(outcome.advances_ns, np.int64))

    def count(self, result):
        return sum(kept["result"] == result for kept in self.schemas.values())

    def total(self, kind):
        return sum(len(kept.get(kind, ())) for kept in self.schemas.values())

    def mean_of(self, key, unit):
        values = [kept[key] for kept in self.schemas.values() if kept["result"] in ("passed", "wrong") and key in kept]
        return round(float(np.mean(values)) / unit, 3) if values else None

    def summary(self):
        masks = np.concatenate(self.masks) / 1e3
        both = masks + np.concatenate(self.advances) / 1e3
        figures = {
            "schemas": len(self.schemas),
            "passed": self.count("passed"),
            "compile errors": self.count("compile error"),
            "crashes, timeouts, errors in masks": self.count("died"),
            "invalid instances accepted": self.total("invalid_accepted"),
            "valid instances rejected": self.total("valid_rejected"),
            "masks": len(masks),
        }
        for name, times in (("mask", masks), ("mask and advance", both)):
            for kind, of in (("mean", np.mean), ("median", np.median), ("p99", p99), ("max", np.max)):
                figures[f"{name}, {kind}, us"] = round(float(of(times)), 2) if len(times) else None
        figures["compile, mean, ms"] = self.mean_of("compile_us", 1e3)
        figures["to first mask, mean, ms"] = self.mean_of("first_us", 1e3)
        return figures


def p99(times):
    return np.percentile(times, 99)


def table(summaries):
    """Returns the lines of a table, from {engine with version: summary}."""
    lines = ["| | " + " | ".join(summaries) + " |", "|---" + "|---:" * len(summaries) + "|"]
    for row in next(iter(summaries.values())):
        cells = (summary[row] for summary in summaries.values())
        lines.append(f"| {row} | " + " | ".join("" if cell is None else f"{cell:,}" for cell in cells) + " |")
    return lines
