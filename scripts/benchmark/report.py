"""The results, as a table for people and as JSON for programs."""

import json
import os
import platform
import re

from . import fork, limits, peer, smol, speed
from .crowd import QUIET
from .measure import median, ratios

# Figures are stored in base units; these units are shown.
UNITS = {
    "tokens/s": (1, 1, "tokens/s"),
    "multiply-adds/s": (1e-9, 1, "G multiply-adds/s"),
    "time": (1e3, 2, "ms"),
    "KB": (1e-3, 0, "KB"),
    "MB": (1e-6, 2, "MB"),
    "MB/s": (1e-6, 1, "MB/s"),
    "GB/s": (1e-9, 2, "GB/s"),
}


# --- cells --------------------------------------------------------------------------------------


def spread(values, unit):
    scale, digits, shown = UNITS[unit]
    middle = f"{median(values) * scale:.{digits}f}"
    if len(values) == 1:
        return f"{middle} {shown}"
    low, high = min(values) * scale, max(values) * scale
    return f"{middle} ({low:.{digits}f}..{high:.{digits}f}) {shown}"


def number(value, unit):
    scale, _, shown = UNITS[unit]
    return f"{value * scale:g} {shown}"


def wanted(bound, unit):
    sign = "at most" if bound.at_most else "at least"
    if not bound.sides:
        return f"{sign} {number(bound.value, unit)}"
    if bound.sides == ("limit",):
        return f"{sign} {bound.value:.0%} of limit"
    return f"{sign} {bound.value:g} x {'fastest peer' if bound.sides[1:] else bound.sides[0]}"


def measured_cell(row, case):
    text = spread(case.values["smol"], row.unit)
    if row.extra:
        text += f"; {row.extra} {spread(case.values[row.extra], 'time')}"
    return text


def beside_cell(row, case):
    texts = []
    for side in row.beside:
        if side in case.values:
            ratio, low, high = ratios(case.values["smol"], case.values[side])
            theirs = spread(case.values[side], row.unit)
            texts.append(f"{side}: {theirs}, {ratio:.2f} x ({low:.2f}..{high:.2f})")
    return "; ".join(texts)


def limit_cell(row, case):
    if "limit" not in case.values:
        return ""
    ratio, low, high = ratios(case.values["smol"], case.values["limit"])
    share = f"{ratio:.0%} ({low:.0%}..{high:.0%})"
    return f"{row.limit}: {spread(case.values['limit'], row.unit)}; {share}"


def verdict(row, case):
    missed = row.missed(case)
    if not row.judged(case):
        return "no target"
    return "missed: " + ", ".join(wanted(bound, row.unit) for bound in missed) if missed else "met"


def cells(row, case):
    bounds = row.bounds if case.failure else row.judged(case)
    target = ", ".join(wanted(bound, row.unit) for bound in bounds)
    if case.failure:
        return [row.case, target, f"not measured: {case.failure}", "", "", "NOT MEASURED"]
    return [
        row.case, target, measured_cell(row, case), beside_cell(row, case), limit_cell(row, case),
        verdict(row, case),
    ]  # fmt: skip


def table(rows, cases):
    lines = [["what", "target", "smol", "beside it; smol in ratio", "limit; smol's share", "verdict"]]
    lines += [cells(row, cases[row.case]) for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    texts = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines]
    texts.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(texts)


# --- circumstances ------------------------------------------------------------------------------


def processor():
    """Returns the processor's name, or its family and model where a virtual machine hides the name."""
    fields = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", open("/proc/cpuinfo").read(), re.M))
    name = fields.get("model name", platform.machine())
    if "cpu family" in fields:
        name += f" (family {fields['cpu family']}, model {fields['model']})"
    return f"{name}, {os.cpu_count()} processors"


def load(cases):
    """Returns other processes' share of the machine in the median measurement and in the worst."""
    shares = [share for case in cases.values() for share in case.others]
    if not shares:
        return "nothing was measured"
    text = f"others used {median(shares):.0%} of the processors' time, {max(shares):.0%} at worst"
    return text + (": TOO MUCH, the figures mean little" if median(shares) > QUIET else "")


def circumstances(rounds, cases):
    isa = speed.isa()
    flash = [f"{kind}: {chosen}" for kind, chosen in speed.FLASH_CHOSEN.items()]
    return {
        "machine": f"{processor()}, {platform.machine()}",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "smol": f"{smol.version()}, {isa} kernels",
        "limit": limits.instructions(isa),
        "peer": f"llama.cpp of llama-cpp-python {peer.version()}: {' '.join(peer.features())}; "
        "KV cache f16, n_batch 2048, n_ubatch 512, weights mapped",
        "ik_llama.cpp": fork.state(),
        "flash attention": "; ".join(flash) or "not tried",
        "rounds": f"{rounds}, interleaved; medians (lowest..highest); ratios are of medians "
        "(lowest..highest of one round)",
        "load": load(cases),
    }


def write_json(path, lines, rows, cases):
    def row_object(row):
        case = cases[row.case]
        checks = [
            {**vars(bound), "figure": bound.figure(case), "met": bound.holds(case)}
            for bound in ([] if case.failure else row.judged(case))
        ]
        return {"what": row.case, "unit": row.unit, "beside": row.beside, "limit": row.limit,
                "targets": checks, "failure": case.failure}  # fmt: skip

    everything = {
        "circumstances": lines,
        "rows": [row_object(row) for row in rows],
        "cases": {
            name: {"seconds": case.seconds, "others": case.others, **case.values}
            for name, case in cases.items()
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(everything, indent=1) + "\n")
