"""Measures the load from other processes. On a busy machine the figures are unreliable, above all the peer's,
because its threads wait for each other in busy loops."""

import os
import time

QUIET = 0.1  # share of the processors' time above which figures are doubtful
LOOK = 0.25  # seconds


def busy_seconds():
    """Returns the processor time that all processes have used since the machine started, including the host
    of a virtual machine."""
    with open("/proc/stat") as file:
        fields = [int(field) for field in file.readline().split()[1:]]
    user, nice, system, _, _, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


class Watch:
    """Measures the share of all processors' time that other processes use during a `with` statement."""

    def __enter__(self):
        self.start, self.busy, self.own = time.time(), busy_seconds(), own_seconds()
        return self

    def __exit__(self, *error):
        self.seconds = time.time() - self.start
        own = own_seconds() - self.own
        self.others = max(0.0, busy_seconds() - self.busy - own)

    def share(self):
        return self.others / (self.seconds * os.cpu_count())


class Patience:
    """Waits for quiet moments, for at most a number of seconds in total."""

    def __init__(self, seconds):
        self.left = seconds

    def wait(self):
        while self.left > 0:
            with Watch() as watch:
                time.sleep(LOOK)
            self.left -= LOOK
            if watch.share() < QUIET:
                return
