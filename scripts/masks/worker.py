"""One engine in a process of its own, which may crash, hang or take too much memory."""

import gc
import multiprocessing
import os
import resource
import time
from array import array
from dataclasses import dataclass, field

from benchmark.paths import Unmeasured

from .engines import ENGINES
from .vocabulary import Vocabulary

START_LIMIT = 300  # seconds
GIB = 1 << 30


@dataclass
class Outcome:
    """The result of one schema in one engine; times in nanoseconds."""

    error: str = ""  # of compiling
    died: str = ""  # a crash or a timeout, with where it happened
    compile_ns: int = 0
    first_ns: int = 0  # from the schema to the first mask of its first instance
    masks_ns: array = field(default_factory=lambda: array("q"))  # for each token that was looked up
    advances_ns: array = field(default_factory=lambda: array("q"))  # likewise, 0 for those not allowed
    refused_at: list = field(default_factory=list)  # for each instance: None, or tokens before the refusal


# --- within the process -------------------------------------------------------------------------


def refused_at(engine, ids, outcome):
    """Returns None if the engine accepts a text, or the number of tokens that it accepts of it."""
    clock = time.perf_counter_ns
    for i, token in enumerate(ids):
        begin = clock()
        engine.mask()
        between = clock()
        allowed = engine.allows(token)
        outcome.masks_ns.append(between - begin)
        begin = clock()
        if allowed:
            engine.advance(token)
        outcome.advances_ns.append(clock() - begin if allowed else 0)
        if not allowed:
            return i
    return None if engine.may_end() else len(ids)


def measure(engine, schema, texts, say):
    clock, outcome = time.perf_counter_ns, Outcome()
    begin = clock()
    try:
        engine.compile(schema)
    except Exception as error:  # whatever class the engine chooses
        outcome.error = str(error) or repr(error)
        return outcome
    outcome.compile_ns = clock() - begin
    say("masks")
    for ids in texts:
        begin = clock()
        engine.start()
        started = clock() - begin
        outcome.refused_at.append(refused_at(engine, ids, outcome))
        outcome.first_ns = outcome.first_ns or outcome.compile_ns + started + outcome.masks_ns[0]
    return outcome


def serve(connection, name, vocabulary_name, memory):
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    engine = ENGINES[name](Vocabulary(vocabulary_name))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # engines warn of what they ignore
    gc.disable()
    connection.send(engine.version())
    while job := connection.recv():
        try:
            outcome = measure(engine, *job, connection.send)
        except Exception as error:
            outcome = Outcome(died=f"masks: {error!r}")
        connection.send(outcome)
        gc.collect()


# --- outside of it ------------------------------------------------------------------------------


class Worker:
    """Runs one engine, again and again if it dies."""

    def __init__(self, name, vocabulary, options):
        self.name, self.vocabulary, self.options = name, vocabulary, options
        self.process = None

    def begin(self):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        arguments = theirs, self.name, self.vocabulary.name, self.options.memory * GIB
        self.process = context.Process(target=serve, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        try:
            self.version = self.receive(time.monotonic() + START_LIMIT)
        except (TimeoutError, EOFError):
            raise Unmeasured(f"{self.name} does not start") from None

    def receive(self, deadline):
        if not self.connection.poll(max(0, deadline - time.monotonic())):
            raise TimeoutError
        return self.connection.recv()

    def end(self):
        if self.process:
            self.process.kill()
            self.process.join()
            self.connection.close()
        self.process = None

    def measure(self, schema, texts):
        """Returns the Outcome of a schema and its instances, lists of ids."""
        if not self.process:
            self.begin()
        where, deadline = "compile", time.monotonic() + self.options.limit
        try:
            self.connection.send((schema, texts))
            while isinstance(answer := self.receive(deadline), str):
                where = answer
            return answer
        except TimeoutError:
            self.end()
            return Outcome(died=f"{where}: more than {self.options.limit} s")
        except (EOFError, ConnectionError):
            self.process.join()
            status = self.process.exitcode
            self.end()
            return Outcome(died=f"{where}: exit status {status}")
