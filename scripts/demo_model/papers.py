"""Short texts of Willowby: portraits, sums, letters, diaries, recipes, talk and chat turns."""

from .scribe import join
from .stories import story, weather_today
from .world import BY_NAME, DAYS, MONTHS, PEOPLE, RELATIONS, THINGS

GREETING = "[Hello|Hello|Hi|Good morning|Good evening]"


def portrait(s):
    """Facts about one person, always the same for the same person."""
    first = s.say("{h} is [{h.a_trait} {h.job}|the {h.job} of Willowby]."
                  if not s.h.child else "{h} is {h.a_trait} {h.job}.")
    facts = [
        s.say("{h.He} lives {h.home}."),
        s.say("{h.He} [has|owns] a {h.pet.colour} {h.pet.kind} [named|called] {h.pet}. {h.pet} "
              "often {h.pet.trick}."),
        s.say("[{h.His} favourite food is {h.food}.|{h.He} likes {h.food} best.]"),
        s.say("In the evening {h.he} likes to {h.hobby}."),
        s.say("{h.He} never goes out without {h.tool}."),
    ]
    relations = [f"{a} is {b}'s {kind}." for a, b, kind in RELATIONS if s.h.name in (a, b)]
    last = s.pick(relations) if s.chance(0.5) else ""
    return join([first, *s.rng.sample(facts, s.rng.randint(2, 5)), last])


def self_portrait(s):
    """A person introduces himself or herself."""
    return join([
        s.say(GREETING + "! [My name is {h}|I am {h}|I'm {h}]."),
        s.say("I'm {h.a_trait} {h.job} and I live {h.home}[| in Willowby]."),
        s.maybe("My {h.pet.kind} is called {h.pet} and {h.pet.trick}."),
        s.maybe("I like to {h.hobby}, and I love {h.food}."),
        s.say("[Who are you?|What's your name?|How are you?|Nice to meet you!|Come and visit me!]"),
        s.maybe("[{w.emoji}|😊]", 0.2),
    ])


def addition(s):
    """A small sum told as a story, with the right result."""
    thing = s.things(1)[0]
    first, second = s.rng.randint(1, 9), s.rng.randint(1, 9)
    return join([
        f"{s.h} has {s.count(first, thing)}.",
        s.say("{f} gives {h.him} {n} more.", n=s.number(second)),
        f"Now {s.h} has {s.count(first + second, thing)}.",
        s.maybe("{a} + {b} = {c}", a=first, b=second, c=first + second),
    ])


def subtraction(s):
    """A small difference told as a story, with the right result."""
    thing = s.things(1)[0]
    first = s.rng.randint(2, 12)
    second = s.rng.randint(1, first - 1)
    return join([
        f"{s.h} has {s.count(first, thing)}.",
        s.say("{h.He} gives {n} to {f}.", n=s.number(second)),
        f"Now {s.h} has {s.count(first - second, thing)}.",
        s.maybe("{a} - {b} = {c}", a=first, b=second, c=first - second),
    ])


def sums(s):
    """A few sums, one in each line."""
    lines = []
    for _ in range(s.rng.randint(3, 8)):
        first, second = s.rng.randint(0, 9), s.rng.randint(0, 9)
        plus = s.chance(0.6)
        first, second = (first, second) if plus else (max(first, second), min(first, second))
        result = first + second if plus else first - second
        lines.append(f"{first} {'+' if plus else '-'} {second} = {result}")
    return "\n".join(lines)


def counting(s):
    """Numbers or days in order."""
    start = s.rng.randint(1, 20)
    numbers = ", ".join(str(n) for n in range(start, start + s.rng.randint(5, 12)))
    first = s.rng.randint(0, 6)
    days = ", ".join((DAYS + DAYS)[first:first + 7])
    return s.say("[{h} counts: {numbers}.|{numbers}|{h} knows the days of the week: {days}."
                 "|The months are {months}.]", numbers=numbers, days=days,
                 months=", ".join(MONTHS[:-1]) + " and " + MONTHS[-1])


def letter(s):
    """A letter from the hero to the friend."""
    s.bind(day=s.pick(DAYS), sight=s.pick(s.p.sights), deed=s.pick(s.p.deeds))
    return "\n\n".join([
        s.say("Dear {f},"),
        join([s.say("[How are you?|I hope you are well.|Thank you for your letter.]"),
              s.say("{today} Yesterday I was {q.at}, and I saw {sight}!", today=weather_today(s),
                    sight=s.pick(s.q.sights)),
              s.say("[{h.pet} is well and {h.pet.trick}.|{h.pet} the {h.pet.kind} misses you.]"),
              s.say("[Would you like to come to {p} with me on {day}?|Come and visit me on {day}. "
                    "I'll make {f.food}.|Please bring {f.tool} when you come on {day}.]")]),
        s.say("[Love|Yours|With love|See you soon],\n{h}"),
    ])


def diary(s):
    """A page of a diary, with the date."""
    s.bind(day=s.pick(DAYS), month=s.pick(MONTHS), date=s.rng.randint(1, 28),
           sight=s.pick(s.p.sights))
    return join([
        s.say("{day}, {date} {month}."), weather_today(s),
        s.say("In the morning I went to {p} with {f}. We saw {sight}."),
        s.say("[{f} {f.way}, as always.|{f} told me about {f.pet}, {f.his} {f.pet.kind}.]"),
        s.say("[For supper we had {f.food}.|Then we went home, because we were tired.]"),
        s.say("[It was a good day.|I'm tired now. Good night!|Tomorrow I want to {h.hobby}.]"),
        s.maybe("— {h}", 0.3),
    ])


def recipe(s):
    """The recipe of the favourite food."""
    return s.say(
        "{h}'s {h.food}\n\nYou need:\n- {a} eggs\n- {b} cups of flour\n- {c} spoons of "
        "[sugar|honey]\n- [a little salt|some butter|a glass of milk]\n\n"
        "1. Mix [everything|the eggs and the flour] in a big bowl.\n"
        "2. Wait for {d} minutes.\n"
        "3. [Bake it until it is golden|Put it in the hot oven|Cook it slowly].\n"
        "4. Share it with {f}!",
        a=s.rng.randint(2, 6), b=s.rng.randint(2, 5), c=s.rng.randint(2, 9),
        d=s.rng.randint(1, 6) * 5)


def menu(s):
    """Today's menu of the café."""
    foods = s.rng.sample([person.food for person in PEOPLE], 3)
    lines = [f"- {food}: {s.rng.randint(2, 9)} coins" for food in foods]
    return s.say("Café Luna[| ☕]\nToday is {day}. [We have|On the menu]:\n{lines}\n"
                 "[Bon appétit!|Enjoy your meal!|José is waiting for you.]",
                 day=s.pick(DAYS), lines="\n".join(lines))


def talk(s):
    """A short conversation about the weather, the animals and the food."""
    s.bind(sight=s.pick(s.p.sights), hello=s.say(GREETING))
    turns = [
        s.say("\"{hello}, {f}!\" said {h}. \"{hello}, {h}! How are you?\" said "
              "{f}. \"I'm [very well|fine|a bit tired], thank you,\" said {h}."),
        s.say("\"[What a day|Look at the sky]! It's {w.kind} again,\" said {f}. \"Yes, it's "
              "[lovely|terrible],\" said {h}."),
        s.say("\"How is {h.pet}?\" asked {f}. \"{h.pet} is well. But {h.pet} always {h.pet.trick}"
              ",\" said {h}."),
        s.say("\"Where are you going?\" asked {f}. \"I'm going to {p}. I want to see {sight},\" "
              "said {h}."),
        s.say("\"Are you hungry?\" asked {h}. \"Yes! I'd love some {f.food},\" said {f}."),
        s.say("\"Goodbye, {f}!\" said {h}. \"[See you tomorrow|See you soon|Goodbye], {h}!\" said "
              "{f}."),
    ]
    middle = s.rng.sample([1, 2, 3, 4], s.rng.randint(1, 3))
    return "\n".join([turns[0]] + [turns[i] for i in middle] + [turns[5]])


def packing_game(s):
    """A game in which every player repeats the list and adds one thing to it."""
    players = (s.h, s.f, s.g)
    packed, lines = [], []
    for turn in range(s.rng.randint(3, 6)):
        packed.append(s.count(s.rng.randint(1, 9), s.pick(THINGS)))
        lines.append(f"{players[turn % 3]}: \"I pack my bag and take {' and '.join(packed)}.\"")
    return s.say("{h}, {f} and {g} played a game.\n") + "\n".join(lines)


def errand(s):
    """A person must remember what to bring, repeats it and brings it."""
    basket = " and ".join(s.count(s.rng.randint(1, 9), thing) for thing in s.things(2))
    return s.say(
        "\"[Bring me|I need|I would like] {basket}, please,\" said {h}. \"So you need {basket}. "
        "[Yes, of course|No problem|I'll try]!\" said {f}. {g} saw {f} and asked, \"What are you "
        "looking for?\" \"I need {basket} for {h},\" said {f}. [An hour later|Soon] {f} came back "
        "with {basket}. \"[Thank you|Well done], {f}!\" said {h}.", basket=basket)


def question(s):
    """A question about the village and its right answer."""
    first, second, kind = s.pick(RELATIONS)
    a, b = s.rng.randint(1, 9), s.rng.randint(1, 9)
    return s.pick((
        (s.say("Where does {h} live?"), s.say("{h} lives {h.home}.")),
        (s.say("Who is {h}?"), s.say("{h} is {h.a_trait} {h.job}. {h.He} lives {h.home}.")),
        (s.say("What does {h} like to eat?"), s.say("{h} likes {h.food} best.")),
        (s.say("What does {h} like to do?"), s.say("{h} likes to {h.hobby}.")),
        (s.say("[What is the name of {h}'s {h.pet.kind}?|What is {h}'s {h.pet.kind} called?]"),
         s.say("{h}'s {h.pet.kind} is called {h.pet}.")),
        (s.say("Who is {h.pet}?"),
         s.say("{h.pet} is {h}'s {h.pet.kind}. {h.pet} often {h.pet.trick}.")),
        (s.say("What colour is {h.pet} the {h.pet.kind}?"),
         s.say("{h.pet} is {h.pet.colour}.")),
        (f"Who is {first}?",
         s.say("{x} is {x.a_trait} {x.job}. ", x=BY_NAME[first]) + f"{first} is {second}'s {kind}."
         ),
        (f"What is {a} + {b}?", f"{a} + {b} = {a + b}."),
        (s.say("What can I do {p.at}?"), s.say("You can look for {sight} there.",
                                              sight=s.pick(s.p.sights))),
    ))


def questions(s):
    """Questions and answers, one pair or a few."""
    pairs = []
    for _ in range(s.rng.randint(1, 4)):
        s.cast(s.pick(PEOPLE))
        pairs.append("Question: {}\nAnswer: {}".format(*question(s)))
    return "\n\n".join(pairs)


def chat_turn(s):
    """A message of a user and the answer of the assistant."""
    s.cast(s.pick(PEOPLE))
    kind = s.rng.random()
    if kind < 0.15:
        return s.say("[Hello|Hi|Good morning|How are you?]"), s.say(
            "Hello! [How can I help you?|I'm fine, thank you.|Nice to meet you!]")
    if kind < 0.3:
        text = story(s)
        ask = "[Tell me a story|Please tell me a story|Do you know a story]"
        about = " about {h}" if s.h.name in text and s.chance(0.6) else ""
        return s.say(ask + about + "."), text
    return question(s)


def chat(s):
    """A conversation of one to three turns with the chat markers around every message."""
    messages = []
    for _ in range(s.rng.randint(1, 3)):
        for role, text in zip(("user", "assistant"), chat_turn(s)):
            messages.append(f"<|im_start|>{role}\n{text}<|im_end|>\n")
    return "".join(messages)
