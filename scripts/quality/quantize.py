"""llama.cpp's quantization: its importance matrix, computed as llama-imatrix does, and its types.

The matrix holds, for each tensor of the layers, the mean square of each input over windows of 512 ids of a
text. The embedding and the output layer get none, as there."""

import ctypes
from collections import defaultdict

import llama_cpp as llama
import numpy as np
from benchmark import peer
from llama_cpp._ggml import libggml

from .evaluate import Peer

WINDOW = 512
libggml.ggml_op_name.restype = ctypes.c_char_p

# Mixtures of types; "pure": all matrices get the one that is named.
TYPES = ("Q4_0", "IQ4_NL", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "Q4_0 pure", "IQ4_NL pure")


class Tensor(ctypes.Structure):
    """The start of struct ggml_tensor."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("ne", ctypes.c_int64 * 4),
        ("nb", ctypes.c_size_t * 4),
        ("op", ctypes.c_int),
        ("op_params", ctypes.c_int32 * 16),
        ("flags", ctypes.c_int32),
        ("src", ctypes.c_void_p * 10),
        ("view_src", ctypes.c_void_p),
        ("view_offs", ctypes.c_size_t),
        ("data", ctypes.c_void_p),
        ("name", ctypes.c_char * 64),
    ]


class Squares:
    """Sums of squares of the inputs of each matrix, collected while llama.cpp evaluates."""

    def __init__(self):
        self.sums, self.counts = {}, defaultdict(int)
        self.callback = llama.ggml_backend_sched_eval_callback(self.see)

    def see(self, pointer, ask, user):
        """Answers whether this tensor is wanted, or takes its inputs."""
        tensor = Tensor.from_address(pointer)
        if libggml.ggml_op_name(tensor.op) != b"MUL_MAT":
            return False
        weights, inputs = (Tensor.from_address(tensor.src[i]) for i in (0, 1))
        if not weights.name.startswith(b"blk."):
            return False
        if not ask:
            self.add(weights.name.decode(), inputs)
        return True

    def add(self, name, inputs):
        width, n = inputs.ne[0], inputs.ne[1]
        data = ctypes.cast(inputs.data, ctypes.POINTER(ctypes.c_float))
        rows = np.ctypeslib.as_array(data, (n, inputs.nb[1] // 4))[:, :width]
        self.sums[name] = self.sums.get(name, 0) + np.square(rows, dtype=np.float64).sum(axis=0)
        self.counts[name] += n

    def means(self):
        return {name: np.float32(sums / self.counts[name]) for name, sums in self.sums.items()}


def importance(path, ids, n_threads):
    """Returns {tensor: mean squares of its inputs} over the whole windows of the ids."""
    squares = Squares()
    peer = Peer(path, WINDOW, n_threads, on_tensor=squares.callback)
    for begin in range(0, len(ids) - WINDOW + 1, WINDOW):
        for _ in peer.logits(ids[begin : begin + WINDOW]):
            pass
    peer.close()
    return squares.means()


def matrix(means):
    """Returns llama.cpp's array of entries, which ends with an empty one."""
    entries = (llama.llama_model_imatrix_data * (len(means) + 1))()
    for entry, (name, values) in zip(entries, means.items()):
        entry.name, entry.size = name.encode(), len(values)
        entry.data = values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    return entries


def quantize(source, target, name, means, n_threads):
    """Writes the type `name` of a GGUF file, with the importance matrix `means` unless it is None."""
    kind = name.removesuffix(" pure")
    peer.quantize(source, target, kind, kind != name, matrix(means) if means else None, n_threads)
