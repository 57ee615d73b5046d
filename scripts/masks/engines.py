"""The engines, each with the same five calls. compile() raises what the engine raises.

    compile(schema)  takes the text of a schema
    start()          begins a text
    mask()           computes which tokens may come next
    allows(id)       looks a token up in the last mask; not part of the measured time
    advance(id)      appends a token that is allowed
    may_end()        tells whether the text so far is complete

All engines are asked for JSON without white space. Constructors may import slowly; each engine runs in a
process of its own."""

import ctypes
import importlib.metadata
import os
import subprocess
import sys

from benchmark.paths import BUILD, ROOT


JSON_SCHEMA, GRAMMAR = 0, 3  # smol_constraint_kind
JSON_COMPACT = 1  # smol_json_space


class Refused(Exception):
    """An engine reports an error by other means than an exception."""


class Bits:
    """A mask of 32-bit words in memory that the engine writes to, of which it writes `unit` bits at a time."""

    def __init__(self, n_tokens, unit=32):
        self.words = (ctypes.c_uint32 * (-(-n_tokens // unit) * (unit // 32)))()
        self.address, self.n_bytes = ctypes.addressof(self.words), ctypes.sizeof(self.words)

    def __contains__(self, token):
        return bool(self.words[token >> 5] >> (token & 31) & 1)


class Smol:
    name = "smol"
    kind = JSON_SCHEMA

    def __init__(self, vocabulary):
        sys.path.append(str(ROOT / "tests/oracle"))
        import smol_h

        self.smol_h, self.lib, self.error = smol_h, smol_h.load(BUILD / "libsmol.so"), smol_h.Error()
        self.model, self.constraint, self.matcher = (ctypes.c_void_p() for _ in range(3))
        self.failed = ctypes.byref(self.error)
        blob = str(vocabulary.blob).encode()
        self.check(self.lib.smol_model_open(blob, None, ctypes.byref(self.model), self.failed))
        self.bits = Bits(len(vocabulary), unit=64)

    def version(self):
        return self.lib.smol_version().decode()

    def check(self, status):
        if status:
            raise Refused(str(self.error))

    def compile(self, schema):
        self.lib.smol_matcher_free(self.matcher)
        self.lib.smol_constraint_free(self.constraint)
        self.matcher.value = self.constraint.value = None
        text = schema.encode()
        params = ctypes.byref(self.smol_h.ConstraintParams(self.kind, text, len(text), JSON_COMPACT))
        out = ctypes.byref(self.constraint)
        self.check(self.lib.smol_constraint_create(self.model, params, out, self.failed))

    def start(self):
        self.lib.smol_matcher_free(self.matcher)
        self.matcher.value = None
        self.check(self.lib.smol_matcher_create(self.constraint, ctypes.byref(self.matcher), self.failed))

    def mask(self):
        self.check(self.lib.smol_matcher_mask(self.matcher, self.bits.address, self.failed))

    def allows(self, token):
        return token in self.bits

    def advance(self, token):
        self.check(self.lib.smol_matcher_accept(self.matcher, token, self.failed))

    def may_end(self):
        return bool(self.lib.smol_matcher_complete(self.matcher))


class LlamaCpp(Smol):
    """llama.cpp's own translation to a grammar, by its examples/json_schema_to_grammar.py, which LLAMA_CONVERTER names;
    the grammar is read by smol. Not for measuring time."""

    name = "llama.cpp"
    kind = GRAMMAR

    def version(self):
        return "json_schema_to_grammar.py"

    def compile(self, schema):
        command = [sys.executable, os.environ["LLAMA_CONVERTER"], "-"]
        done = subprocess.run(command, input=schema, capture_output=True, text=True)
        if done.returncode:
            raise Refused(done.stderr.strip().splitlines()[-1])
        super().compile(done.stdout)


class LLGuidance:
    name = "llguidance"

    def __init__(self, vocabulary):
        import llguidance

        self.Matcher = llguidance.LLMatcher
        path = str(vocabulary.folder / "tokenizer.json")
        self.tokenizer = llguidance.LLTokenizer(path, n_vocab=len(vocabulary), eos_token=vocabulary.stop)
        self.bits = Bits(len(vocabulary))
        self.options = {"whitespace_flexible": False}

    def version(self):
        return importlib.metadata.version("llguidance")

    def check(self):
        if self.matcher.is_error():
            raise Refused(self.matcher.get_error())

    def compile(self, schema):
        grammar = self.Matcher.grammar_from_json_schema(schema, overrides=self.options)
        self.compiled = self.matcher = self.Matcher(self.tokenizer, grammar, log_level=0)
        self.check()

    def start(self):
        self.matcher = self.compiled.deep_copy()

    def mask(self):
        self.matcher.unsafe_compute_mask_ptr(self.bits.address, self.bits.n_bytes)

    def allows(self, token):
        if token in self.bits:
            return True
        self.check()
        return False

    def advance(self, token):
        self.matcher.consume_token(token)

    def may_end(self):
        return self.matcher.is_accepting()


class XGrammar:
    """Not strict: else it would take additionalProperties for false where a schema lacks it."""

    name = "xgrammar"

    def __init__(self, vocabulary):
        import xgrammar

        self.xgrammar, self.stop = xgrammar, vocabulary.stop
        tokenizer = xgrammar.TokenizerInfo(
            vocabulary.tokens, xgrammar.VocabType.BYTE_LEVEL, vocab_size=len(vocabulary), stop_token_ids=[self.stop]
        )
        self.compiler = xgrammar.GrammarCompiler(tokenizer, max_threads=1, cache_enabled=False)
        self.bits = xgrammar.allocate_token_bitmask(1, len(vocabulary))
        self.words = self.bits.numpy()[0]

    def version(self):
        return importlib.metadata.version("xgrammar")

    def compile(self, schema):
        self.compiled = self.compiler.compile_json_schema(
            schema, any_whitespace=False, separators=(",", ":"), strict_mode=False
        )

    def start(self):
        self.matcher = self.xgrammar.GrammarMatcher(self.compiled)

    def mask(self):
        self.matcher.fill_next_token_bitmask(self.bits)

    def allows(self, token):
        return bool(int(self.words[token >> 5]) >> (token & 31) & 1)

    def advance(self, token):
        self.matcher.accept_token(token)

    def may_end(self):
        return self.matcher.accept_token(self.stop)


class Outlines:
    name = "outlines-core"

    def __init__(self, vocabulary):
        import outlines_core
        from outlines_core import json_schema

        self.core, self.regex = outlines_core, json_schema.build_regex_from_schema
        ids = {}
        for token, text in vocabulary.bytes_of_tokens().items():
            ids.setdefault(text, []).append(token)
        self.vocabulary = outlines_core.Vocabulary(vocabulary.stop, ids)
        self.bits = Bits(len(vocabulary))

    def version(self):
        return importlib.metadata.version("outlines-core")

    def compile(self, schema):
        self.index = self.core.Index(self.regex(schema, ""), self.vocabulary)

    def start(self):
        self.guide = self.core.Guide(self.index)

    def mask(self):
        self.guide.write_mask_into(self.bits.address, self.bits.n_bytes // 4, 4)

    def allows(self, token):
        return token in self.bits

    def advance(self, token):
        self.guide.advance(token, False)

    def may_end(self):
        return self.guide.is_finished()


ENGINES = {engine.name: engine for engine in (Smol, LLGuidance, XGrammar, Outlines, LlamaCpp)}
MEASURED = [name for name in ENGINES if name != LlamaCpp.name]
