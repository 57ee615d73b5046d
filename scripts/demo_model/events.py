"""Small events that may happen to the hero in the middle of any story."""

from .world import PEOPLE, PLACES


def guest(s):
    """Returns a person for a short scene who is neither the hero nor the friend."""
    return s.pick([person for person in PEOPLE if person not in (s.h, s.f)])


def meeting(s):
    """The hero meets a neighbour."""
    return s.say(
        "[At the corner|Near the church|On the bridge|In front of the bakery] {h} met {x}, the "
        "{x.job}. \"[Where are you going|How are you], {h}?\" asked {x}. \"[I don't know yet"
        "|I'm just taking a walk|I'm looking for {f}],\" said {h}. [{x} {x.way}.|{x} gave {h.him} "
        "some {x.food}.|{x.pet} the {x.pet.kind} said \"{x.pet.sound}\".]", x=guest(s))


def walk(s):
    """The hero goes to a place and does something there."""
    place = s.pick(PLACES)
    return s.say("[Then|After that|A little later] {h} went to {place} and {deed}. [There {h.he} "
                 "saw {sight}.|It was very quiet there.|{h.He} stayed for {n} minutes.]",
                 place=place, deed=s.pick(place.deeds), sight=s.pick(place.sights),
                 n=s.rng.randint(1, 6) * 10)


def pet_trouble(s):
    """The hero's animal does something silly."""
    return s.say(
        "{h.pet} the {h.pet.kind} [ate one of {h.his} socks|fell into a bucket of water"
        "|sat down on {h.his} hat|chased a {colour} butterfly|slept in the soup pot"
        "|wanted to play]. [\"{h.pet}!\" cried {h}. \"{h.pet.sound},\" said {h.pet}."
        "|{h} [laughed|shook {h.his} head].|\"That's not funny,\" said {h}, but {h.he} had to "
        "laugh.]")


def change_of_weather(s):
    """The weather changes and the hero looks for a dry or a shady place."""
    return s.say({
        "sunny": "A small cloud came over the hill. It looked like [a ship|a sheep|a big hat|a "
                 "plate of {x.food}], and {h} waved at it.",
        "rainy": "Then the rain became stronger. {h} ran into the [bakery|café|church|library] "
                 "and dried {h.his} [hair|feet|hat].",
        "windy": "The wind took {h.his} hat and carried it [over the roofs|into a tree|to the "
                 "river]. {x} caught it. \"[Is this yours|Here you are]!\" said {x}.",
        "snowy": "{h} made a snowman with [a carrot for a nose|{n} buttons|an old hat]. \"It looks "
                 "like {x}!\" said {h}.",
        "foggy": "{h} couldn't see {h.his} own feet. \"Who is there?\" called a voice. It was "
                 "{x}, and they [laughed|held hands until they found the way].",
        "hot": "{h} was so thirsty that {h.he} drank {n} glasses of water. Then {h.he} sat down in "
               "the shade of a big tree.",
    }[s.w.kind], x=guest(s), n=s.number(s.rng.randint(2, 9)))


def small_job(s):
    """The hero helps a neighbour with some work."""
    return s.say(
        "{x} needed help. So {h} [carried {n} boxes|washed {n} plates|held the ladder|peeled {n} "
        "potatoes|swept the floor|painted a door {colour}] for {x.him}. \"[You're a great help"
        "|Thank you|I couldn't do it without you], {h},\" said {x}[.|, and gave {h.him} {m} coins."
        "|. \"Come back for {x.food}!\"]", x=guest(s), n=s.number(s.rng.randint(2, 12)),
        m=s.number(s.rng.randint(2, 9)))


def lunch(s):
    """The hero eats with a friend."""
    return s.say(
        "At noon {h} was hungry. {h.He} [shared {f.food} with {f}|went to the café and ordered "
        "{f.food}|sat down under a tree and ate {h.food}]. [\"Is it good?\" asked {f}. \"It's "
        "wonderful,\" said {h}.|It tasted of [honey|butter|summer|home].|Then {h.he} felt better.]")


def thought(s):
    """The hero thinks or feels something."""
    return s.say(
        "[\"Why is the sky blue?\" {h} wondered. Nobody knew.|{h} was happy, because {h.he} was in "
        "Willowby.|{h} thought of {f} and smiled.|For a moment {h} was sad, but {h.he} didn't know "
        "why.|{h} remembered a song from long ago.|\"I'd like to {h.hobby} now,\" thought {h}."
        "|\"If I had {n} wishes, I'd share them with {f},\" thought {h}.]",
        n=s.number(s.rng.randint(2, 7)))


def music(s):
    """A person makes music, and the village listens."""
    return s.say(
        "[José played the guitar|Nora played the fiddle|Anna sang a song|The children sang] in the "
        "square. [The pigeons danced.|{h} clapped {h.his} hands.|\"What a beautiful song!\" said "
        "{h}.|Even {x}, who was {x.trait} but tired, stood up and danced.]", x=guest(s))


def rumour(s):
    """Some news goes round the village."""
    return s.say(
        "\"Have you heard?\" said {x}. \"[There is a bear in the forest|A circus is coming"
        "|The bridge is closed today|{x.pet} can count to {n}|There'll be pancakes for everybody"
        "|The old mill has a ghost]!\" [\"I don't believe it,\" said {h}.|\"Really?\" said {h}. "
        "\"Then I'll tell {f}!\"|{h} laughed. \"You always say that, {x}!\"]",
        x=guest(s), n=s.number(s.rng.randint(3, 10)))


EVENTS = (meeting, walk, pet_trouble, change_of_weather, small_job, lunch, thought, music,
          rumour)


def event(s):
    """Returns one small event."""
    return s.pick(EVENTS)(s)


def events(s, how_many):
    """Returns different events, in any order."""
    return [happen(s) for happen in s.rng.sample(EVENTS, how_many)]
