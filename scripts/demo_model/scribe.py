"""A seeded writer of sentences: fills names into templates and picks among alternatives."""

import random
import re

from .world import COLOURS, NUMBERS, PEOPLE, PLACES, THINGS, WEATHERS

INNERMOST_CHOICE = re.compile(r"\[([^\[\]]*)\]")


class Scribe:
    """Writes one document about a hero `h`, a friend `f`, a helper `g` and a weather `w`."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.names = {}
        self.cast(*self.rng.sample(PEOPLE, 3))
        self.bind(w=self.pick(WEATHERS))
        place, other = self.rng.sample(PLACES, 2)
        self.bind(p=place, q=other, colour=self.pick(COLOURS))

    def __getattr__(self, name):
        """Returns a person or thing of this document: scribe.h, scribe.p."""
        try:
            return self.__dict__["names"][name]
        except KeyError:
            raise AttributeError(name) from None

    def bind(self, **names):
        """Makes values available to all templates of this document."""
        self.names.update(names)

    def cast(self, hero, friend=None, helper=None):
        """Assigns the three parts to different people; draws missing parts at random."""
        taken = [person for person in (hero, friend, helper) if person]
        rest = [person for person in PEOPLE if person not in taken]
        self.rng.shuffle(rest)
        self.bind(h=hero, f=friend or rest.pop(), g=helper or rest.pop())

    def pick(self, options):
        """Returns one of the options."""
        return self.rng.choice(options)

    def chance(self, probability):
        """Returns true with the given probability."""
        return self.rng.random() < probability

    def say(self, template, **extra):
        """Chooses among every [a|b|c], innermost first, and fills in the {names}.

        A phrase filled in may contain choices and names itself, so this repeats until none is left.
        """
        while "[" in template or "{" in template:
            while found := INNERMOST_CHOICE.search(template):
                chosen = self.pick(found.group(1).split("|"))
                template = template[:found.start()] + chosen + template[found.end():]
            template = template.format_map({**self.names, **extra})
        return template

    def maybe(self, template, probability=0.5, **extra):
        """Returns the sentence, or an empty string."""
        return self.say(template, **extra) if self.chance(probability) else ""

    def number(self, value):
        """Returns a small number in words or in digits."""
        return NUMBERS[value] if value < len(NUMBERS) and self.chance(0.5) else str(value)

    def count(self, value, thing):
        """Returns a number and its noun in the right form: "1 apple", "three apples"."""
        return f"{self.number(value)} {thing[0] if value == 1 else thing[1]}"

    def things(self, how_many):
        """Returns different kinds of countable things."""
        return self.rng.sample(THINGS, how_many)


def join(sentences):
    """Joins the sentences that are not empty into one paragraph."""
    return " ".join(sentence for sentence in sentences if sentence)
