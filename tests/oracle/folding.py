"""Folding in numpy: what the tensors of a model and its Gram matrices become when `smolconv
--calibration` moves factors between the inputs of matrices and what computes them."""

import numpy as np

NO_INPUT_NORMS, NO_GATE, PARALLEL, ONE_NORM = 2, 128, 256, 512
ATTENTION, ATTENDED, MLP, GATED = range(4)


def squares_of(stats, record):
    matrix = stats.records[record]
    return np.array(matrix if matrix.ndim == 1 else matrix.diagonal(), np.float32)


def inverses_of(squares):
    """1 / (mean square relative to the mean of all)^(1/4), in float32."""
    mean = np.float32(squares.astype(np.float64).sum() / len(squares))
    if mean * np.float32(2**-20) <= 0:
        return np.ones_like(squares)
    squares = np.maximum(squares, mean * np.float32(2**-20))
    return 1 / np.sqrt(np.sqrt(squares / mean))


class Folding:
    """`inverses`: of each record of the statistics; 1 where nothing is folded."""

    def __init__(self, stats, model):
        self.model, self.inverses = model, []
        heads, kv_heads, dim = (model[name] for name in ("n_heads", "n_kv_heads", "head_dim"))
        last = 4 * model["n_layers"]
        self.sparse = model["sparse"]
        for record in range(len(stats.records)):
            squares = squares_of(stats, record)
            if record > last and model["kv_rank"]:  # of queries before their last matrix, then of heads' parts
                n_queries = model["n_layers"] if model["q_rank"] else 0
                number = record - last - 1 - n_queries
                if number >= 0 and number % 2:  # the heads of a layer share those of latent vectors
                    first = record - number % (2 * heads) + 1
                    squares = np.array([squares_of(stats, first + 2 * head) for head in range(heads)], np.float64)
                    squares = squares.mean(axis=0).astype(np.float32)
                folds = number < 0 or number % 2  # but for the queries of heads
                self.inverses.append(inverses_of(squares) if folds else np.ones(len(squares), np.float32))
                continue
            of_inputs = record > last and not model["experts"]["n_experts"]
            if model["second_head_dim"] and (of_inputs or record < last and record % 4 == ATTENDED):
                self.inverses.append(np.ones(len(squares), np.float32))  # of inputs of layers, and of values, which are normalized
                continue
            if record > last and model["parallel"]:  # of states beside attention, if they have a norm
                self.inverses.append(inverses_of(squares) if model["hybrid"]["norm"] < 2 else np.ones(len(squares), np.float32))
                continue
            gated = not model["blocks"] & NO_GATE  # an activation alone is not linear in `up`
            if record > last:  # of experts: that of its layer's third record, its own
                layer = self.sparse[(record - last - 1) // 2 // model["experts"]["n_experts"]]
                is_input = (record - last) % 2
                of_input = np.ones_like(squares) if model["experts"]["own_norms"] else self.inverses[4 * layer + MLP]
                self.inverses.append(of_input if is_input else inverses_of(squares) if gated else np.ones_like(squares))
                continue
            stateful = record // 4 in model["stateful"] and not model["parallel"]
            # of what a state gives, only Mamba2's has a norm for each channel; values that are clipped are not linear
            attended = model["state_kind"] == 2 if stateful else not model["experts"]["qkv_clip"]
            if record < last and record % 4 == ATTENDED and not stateful and not model["kv_rank"] and len(squares):
                shared = squares.reshape(kv_heads, heads // kv_heads, dim)
                means = shared.astype(np.float64).mean(axis=1, keepdims=True).astype(np.float32)
                squares = np.broadcast_to(means, shared.shape).reshape(-1)
            own_norm = not model["blocks"] & (NO_INPUT_NORMS | ONE_NORM)
            folds = {ATTENTION: own_norm, ATTENDED: attended, MLP: own_norm, GATED: gated}[record % 4]
            folds = not model["tied_embeddings"] if record == last else folds and len(squares) > 0
            self.inverses.append(inverses_of(squares) if folds else np.ones(len(squares), np.float32))

    def value_rows(self, layer):
        if layer in self.model["no_mixer"]:
            return None
        if layer in self.model["stateful"] and not self.model["parallel"] or self.model["kv_rank"]:
            return None
        if self.model["second_head_dim"]:
            return np.ones(1, np.float32)
        kv_heads, dim = self.model["n_kv_heads"], self.model["head_dim"]
        return self.inverses[4 * layer + ATTENDED].reshape(kv_heads, -1, dim)[:, 0].reshape(-1)

    def state_record(self, layer):
        return 4 * self.model["n_layers"] + 1 + self.model["stateful"].index(layer)

    def tensor(self, name, values):
        """The elements of a tensor, folded."""
        *place, kind = name.split(".")
        if ".experts." in name:
            layer, expert = int(place[1]), int(place[3])
            number = self.sparse.index(layer) * self.model["experts"]["n_experts"] + expert
            inner = self.inverses[4 * self.model["n_layers"] + 2 + 2 * number].astype(np.float64)
            if kind == "down":
                return values / inner
            if not self.model["experts"]["own_norms"]:
                values = values / self.inverses[4 * layer + MLP].astype(np.float64)
            return values * inner[:, None] if kind == "up" else values
        layer = 4 * int(place[1]) if place else 0
        gated, last = self.inverses[layer + GATED], self.inverses[4 * self.model["n_layers"]]
        attention, attended, mlp = (self.inverses[layer + i] for i in (ATTENTION, ATTENDED, MLP))
        beside = self.model["parallel"] and layer // 4 in self.model["stateful"]
        given = self.inverses[self.state_record(layer // 4)] if beside else attended
        values_rows = self.value_rows(layer // 4)
        query = self.inverses[4 * self.model["n_layers"] + 1 + layer // 4] if self.model["q_rank"] else attention
        latent = self.inverses[-1 - 2 * (self.model["n_layers"] - 1 - layer // 4) * self.model["n_heads"]] if self.model["kv_rank"] else 1
        key_rows = np.tile(1 / np.asarray(latent, np.float64), self.model["n_heads"])
        rows = {"attn_v": values_rows, "attn_v_up": attended, "attn_k_up": key_rows, "mlp_up": gated}
        columns = {
            "attn_q": query, "attn_v_up": latent, "attn_q_down": attention, "attn_k": attention, "attn_v": attention, "attn_o": attended,
            "mlp_gate": mlp, "mlp_up": mlp, "mlp_down": gated, "output": last, "mixer_in": attention,
            "attn_gate": attention, "mixer_gate": attention, "mixer_step": attention, "mixer_rate": attention,
            "router": 1 if self.model["experts"]["own_norms"] else mlp, "shared_gate": mlp, "mixer_out": given,
        }  # fmt: skip
        vectors = {
            "attn_norm": attention, "attn_q_down_norm": query, "attn_latent_norm": latent, "attn_v_bias": values_rows, "mlp_norm": mlp, "mlp_up_bias": gated,
            "final_norm": last, "attn_norm_bias": attention, "mlp_norm_bias": mlp, "final_norm_bias": last,
            "mixer_norm": given if self.model["state_kind"] == 2 else 1,
        }  # fmt: skip
        if kind in vectors:
            return values * vectors[kind]
        if kind in columns:
            values = values / np.asarray(columns[kind], np.float64)
        return values * rows[kind][:, None] if kind in rows else values

    def gram(self, stats, record):
        inverses = self.inverses[record].astype(np.float64)
        return stats.records[record] * np.outer(inverses, inverses)
