"""The feature *vocabulary* of a text section, read from FORMAT.md alone (5.9, and step 8 of 6.2): maps of characters, the
trie of names, and the two ways to look a word up."""

import struct

NO_TOKEN = 0xFFFFFFFF
MERGES, WORDPIECE, UNIGRAM = range(3)
PADDED = 0xFFFFFFFF


class Vocabulary:
    """A vocabulary, read from the section's fields f, its tables t (by the names of their counts) and its pool.
    `need` raises."""

    def __init__(self, f, t, pool, need):
        self.f, self.t, self.pool = f, t, pool
        self.check_fields(need)
        self.check_maps(need)
        self.check_nodes(need)

    def check_fields(self, need):
        f = self.f
        need(f["model"] <= UNIGRAM, "model")
        if f["model"]:
            need(f["flags"] & 9 == 1 and f["unknown_id"] != NO_TOKEN and not f["n_name_slots"], "model's needs")
        need((f["model"] == WORDPIECE) == (f["max_word"] > 0), "max_word")
        need(f["model"] == WORDPIECE or f["prefix"] == f["n_prefix"] == 0, "prefix")
        need(f["n_prefix"] <= 64 and f["prefix"] + f["n_prefix"] <= len(self.pool), "prefix")
        need((f["model"] > 0) == (f["n_nodes"] > 0) and (f["model"] == UNIGRAM) == (f["n_scores"] > 0), "tables")
        need(f["n_maps"] <= 8 and (f["n_maps"] > 0) == (f["n_map_blocks"] > 0), "maps")

    def check_maps(self, need):
        need(all(block < self.f["n_map_blocks"] for index in self.t["n_maps"] for block in index), "map index")
        for change in {change for block in self.t["n_map_blocks"] for change in block} - {0, PADDED}:
            size, start = (change >> 24) - 1, change & 0xFFFFFF
            need(0 <= size <= 64 and start + size <= len(self.pool), "change")
            self.pool[start : start + size].decode()

    def check_nodes(self, need):
        nodes, end = self.t["n_nodes"], 1
        for i, (children, id_, n, byte, zero) in enumerate(nodes):
            need(i < end and children == end and zero == 0, "node")
            need(i > 0 or (id_, byte) == (NO_TOKEN, 0), "root")
            end += n
            need(end <= len(nodes), "children")
            below = [node[3] for node in nodes[children:end]]
            need(all(a < b for a, b in zip(below, below[1:])), "order of children")
        need(not nodes or end == len(nodes), "nodes without a parent")
        need(all(-1e9 < score < 1e9 for score in self.t["n_scores"]), "score")
        if self.f["model"] == UNIGRAM:
            need(all(i < self.f["n_scores"] for i in self.ids()), "names without a score")

    def ids(self):
        return [id_ for _, id_, *_ in self.t["n_nodes"] if id_ != NO_TOKEN]

    def growth(self, number):
        """The factor of a map."""
        factor = 1
        for i, block in enumerate(self.t["n_maps"][number]):
            shortest, longest = (1 + (c >= 0x80) + (c >= 0x800) + (c >= 0x10000) for c in (i * 256, i * 256 + 255))
            for change in set(self.t["n_map_blocks"][block]) - {0}:
                size = longest + 2 if change == PADDED else (change >> 24) - 1
                factor = max(factor, -(-size // shortest))
        return factor

    def names(self):
        """name -> id"""
        found, open_ = {}, [(0, b"")]
        for node, name in open_:
            children, id_, n, _, _ = self.t["n_nodes"][node]
            if id_ != NO_TOKEN:
                found[name] = id_
            open_ += [(i, name + bytes([self.t["n_nodes"][i][3]])) for i in range(children, children + n)]
        return found

    def word(self, word, names, byte_tokens):
        """The ids of a word of bytes; `names` is what names() returned."""
        if self.f["model"] == WORDPIECE:
            return self.wordpiece(word, names)
        return self.unigram(word, names, byte_tokens)

    def wordpiece(self, word, names):
        prefix = self.pool[self.f["prefix"] : self.f["prefix"] + self.f["n_prefix"]]
        unknown, ids, at = [self.f["unknown_id"]], [], 0
        if len(word.decode()) > self.f["max_word"]:
            return unknown
        while at < len(word):
            before = prefix if at else b""
            ends = [end for end in range(at + 1, len(word) + 1) if before + word[at:end] in names]
            if not ends:
                return unknown
            ids.append(names[before + word[at : ends[-1]]])
            at = ends[-1]
        return ids

    def unigram(self, word, names, byte_tokens):
        unknown, scores = self.f["unknown_id"], self.t["n_scores"]
        best = {0: (0.0, None, None)}  # place -> score, start, id
        at = 0
        for character in word.decode():
            length = len(character.encode())
            ways = [(end, names[word[at:end]]) for end in range(at + 1, len(word) + 1) if word[at:end] in names]
            ways = [(end, scores[id_], id_) for end, id_ in ways]
            if not any(end == at + length for end, _, _ in ways):
                ways.append((at + length, min(scores) - 10, unknown))
            for end, score, id_ in ways:
                if end not in best or best[at][0] + score > best[end][0]:
                    best[end] = (best[at][0] + score, at, id_)
            at += length
        ids, end = [], len(word)
        while end > 0:
            _, start, id_ = best[end]
            if id_ != unknown:
                ids[:0] = [id_]
            else:
                while start > 0 and best[start][2] == unknown:
                    start = best[start][1]
                text = word[start:end]
                tokens = [byte_tokens[byte] for byte in text]
                falls_back = self.f["flags"] & 2 and NO_TOKEN not in tokens
                ids[:0] = [names[text]] if text in names else tokens if falls_back else [unknown]
            end = start
        return ids


class Clusters:
    """The feature *clusters*, from FORMAT.md alone (5.9): its tables, which start at the first multiple of 64 from
    `at` on, and the step."""

    def __init__(self, f, data, at, need):
        need(0 < f["n_cluster_classes"] <= 255 and 0 < f["n_cluster_states"] <= 128, "cluster classes, states")
        sizes = 4352 * 2, f["n_cluster_blocks"] * 256, f["n_cluster_states"] * f["n_cluster_classes"], f["n_clusters"] * 12
        tables = []
        for size in sizes:
            start = -(-at // 64) * 64
            need(start + size <= len(data) and not any(data[at:start]), "cluster tables")
            tables.append(data[start : start + size])
            at = start + size
        self.end, self.n_classes = at, f["n_cluster_classes"]
        self.index = struct.unpack("<4352H", tables[0])
        self.blocks, self.transitions = tables[1], tables[2]
        need(max(self.index) < f["n_cluster_blocks"] and max(self.blocks) < self.n_classes, "cluster classes")
        need(max(self.transitions) >> 1 < f["n_cluster_states"], "cluster states")
        self.texts = {}
        before = None
        for text, size, change in struct.iter_unpack("<7sBI", tables[3]):
            key = text[:size]
            need(0 < size < 6 and 0 not in key and not any(text[size:]) and len(key.decode()) > 1, "cluster")
            need(before is None or (before < key and not key.startswith(before)), "order of clusters")
            self.texts[key], before = change, key

    def check_changes(self, need):
        _, pool = self.map
        for change in self.texts.values():
            size, start = (change >> 24) - 1, change & 0xFFFFFF
            need(change not in (0, PADDED) and 0 <= size <= 64 and start + size <= len(pool), "change of a cluster")
            pool[start : start + size].decode()

    def growth(self):
        return max([1, *(-(-((change >> 24) - 1) // len(key)) for key, change in self.texts.items())])

    def split(self, text):
        clusters, state = [], 0
        for character in text:
            c = ord(character)
            entry = self.transitions[state * self.n_classes + self.blocks[self.index[c // 256] * 256 + c % 256]]
            state = entry >> 1
            if entry & 1 or not clusters:
                clusters.append("")
            clusters[-1] += character
        return clusters

    def changed(self, character, number):
        """A character's text, or None if it has no change."""
        vocabulary, pool = self.map
        c = ord(character)
        change = vocabulary.t["n_map_blocks"][vocabulary.t["n_maps"][number][c // 256]][c % 256]
        if change == PADDED:
            return f" {character} "
        return self.shown(change, pool) if change else None

    def shown(self, change, pool):
        return pool[change & 0xFFFFFF :][: (change >> 24) - 1].decode()

    def whole(self, cluster, number):
        """The text of a whole cluster, or None."""
        data = cluster.encode()
        if len(data) >= 6:
            return None
        first = self.changed(cluster[0], number)
        if first is not None:
            return first
        for end in range(1, len(data) + 1):
            if data[:end] in self.texts:
                return self.shown(self.texts[data[:end]], self.map[1])
        return None

    def apply(self, text, number):
        out = []
        for cluster in self.split(text):
            whole = self.whole(cluster, number)
            each = [self.changed(c, number) for c in cluster]
            out += [whole] if whole is not None else [c if e is None else e for c, e in zip(cluster, each, strict=True)]
        return "".join(out)
