"""The training and held-out texts: seeded documents of many kinds."""

from . import papers
from .scribe import Scribe
from .stories import story

KINDS = (
    (story, 56), (papers.portrait, 5), (papers.self_portrait, 5), (papers.addition, 3),
    (papers.subtraction, 3), (papers.sums, 2), (papers.counting, 1), (papers.letter, 4),
    (papers.diary, 4), (papers.recipe, 2), (papers.menu, 1), (papers.talk, 5),
    (papers.packing_game, 4), (papers.errand, 5), (papers.questions, 3), (papers.chat, 6),
)

CURLY_SHARE = 0.05


def curly(text):
    """Returns the same text with typographic quotes and apostrophes."""
    pieces = text.split('"')
    marks = ("”", "“")
    for index in range(1, len(pieces)):
        pieces[index] = marks[index % 2] + pieces[index]
    return "".join(pieces).replace("'", "’")


def document(seed):
    """Returns the document with this seed; equal seeds produce equal documents."""
    scribe = Scribe(seed)
    makers, weights = zip(*KINDS)
    text = scribe.rng.choices(makers, weights)[0](scribe)
    return curly(text) if scribe.chance(CURLY_SHARE) else text


def documents(name, how_many):
    """Returns a list of documents; lists with different names share no seeds."""
    return [document(f"{name} {number}") for number in range(how_many)]
