"""Stories of Willowby. Every plot takes a Scribe and returns a list of paragraphs."""

from .events import event, events
from .scribe import join
from .world import BY_NAME, COLOURS, DAYS

LONG_INTRODUCTION = (
    "[Once upon a time there was {h.a_trait} {h.job} named {h}. {h.He} lived {h.home}."
    "|Once upon a time, in the village of Willowby, there lived {h.a_trait} {h.job} called {h}."
    "|Once upon a time, {h.a_trait} {h.job} called {h} lived {h.home}.]"
)

SHORT_INTRODUCTION = (
    "[{h} was {h.a_trait} {h.job} who lived {h.home}."
    "|In Willowby everybody knew {h}, the {h.trait} {h.job}."
    "|{h} the {h.job} lived {h.home}.]"
)

TIME = "[One day|One morning|One afternoon|On {day} morning|Early in the morning|Last {day}]"

ENDINGS = (
    "[{h} was very happy.|That night, {h} slept very well.|It was a good day in Willowby."
    "|From that day on, {h} and {f} were the best of friends."
    "|{h} smiled all the way home.|And then they all went home and ate {h.food}."
    "|\"What a day!\" said {h}.|And that is the end of the story."
    "|{h} and {f} laughed, and even {h.pet} the {h.pet.kind} looked happy."
    "|They still talk about it in the café.|{f} waved, and {h} waved back.]"
)


def introduction(s):
    """Introduces the hero."""
    return join([
        s.say(LONG_INTRODUCTION if s.chance(0.6) else SHORT_INTRODUCTION),
        s.maybe("{h.He} had a {h.pet.colour} {h.pet.kind} named {h.pet}[| that {h.pet.trick}].",
                0.3),
        s.maybe("{h.He} [liked|loved] to {h.hobby}.", 0.3),
    ])


def weather_today(s):
    """A sentence or two about the day."""
    return join([s.say("{w.opening}."), s.maybe("{w.effect}.", 0.4)])


def ending(s):
    """The end of the day."""
    return join([s.maybe("{w.close}", 0.25), s.say(ENDINGS)])


def lost_pet(s):
    """The hero's animal is gone and is found in an unlikely place."""
    s.bind(sight=s.pick(s.p.sights), other_sight=s.pick(s.q.sights))
    return [
        join([introduction(s),
              s.say(TIME + ", {h.pet} the {h.pet.kind} was [gone|nowhere to be found]."),
              s.say("[\"{h.pet}! Where are you?\" called {h}.|{h}'s heart was heavy."
                    "|{h} called and called, but nothing moved.]")]),
        join([s.say("First, {h} looked {p.at}. {h.He} found {sight}, but no {h.pet.kind}. "
                    "Then {h.he} looked {q.at}. There was only {other_sight}."),
              s.say("[On the way {h.he} met {f}|Near the fountain stood {f}], the {f.job}. "
                    "\"Have you seen {h.pet}?\" asked {h}. [\"No,\" said {f}, \"but I'll help you "
                    "look.\"|\"I haven't,\" said {f}, \"but let's listen.\"]")]),
        join([s.say("They stood still. \"{h.pet.sound}!\" [said a small voice.|It came from far "
                    "away.]"),
              s.say("There was {h.pet}, [asleep in a basket of apples|on the roof of the bakery"
                    "|under the old bridge|inside an empty barrel|between two sacks of flour"
                    "|in the church tower|behind the stove of the café|at the top of a tree]!"),
              s.say("[{f} took {f.tool} and helped {h.pet} out.|{h} took {h.pet} in {h.his} arms."
                    "|{h.pet} looked at them as if nothing had happened.]"),
              ending(s)]),
    ]


def shopping(s):
    """The hero buys some things, gives a few away and counts the rest."""
    thing, other = s.things(2)
    bought, more = s.rng.randint(3, 8), s.rng.randint(2, 6)
    given = s.rng.randint(1, bought - 1)
    s.bind(basket=f"{s.count(bought, thing)} and {s.count(more, other)}", things=thing[1],
           given=s.count(given, thing), left=s.count(bought - given, thing),
           rest=s.count(more, other))
    return [
        join([introduction(s) if s.chance(0.4) else "",
              s.say("{h} went to the market to buy {basket}."), weather_today(s),
              s.maybe("{h.He} wore {w.wear}.", 0.4),
              s.say("\"[Good morning|Hello], {h}!\" said {g}. \"[What would you like|What can I do "
                    "for you|What do you need today]?\""),
              s.say("\"I'd like {basket}, please,\" said {h}.")]),
        join([s.say("On the way home {h} met {f}. {f} looked [sad|hungry|tired]. \"[What's wrong"
                    "|What's the matter], {f}?\" asked {h}. \"[I've lost|I forgot] my {things},\" "
                    "said {f}."),
              s.say("So {h} gave {f.him} {given}. \"[Thank you|Thank you so much|You're very kind]"
                    "!\" said {f}."),
              s.say("[Now {h} had {left} and {rest}. [That was enough for supper."
                    "|{h.He} was happy with that.]"
                    "|Now {h} had only {left}, but {h.he} didn't mind.]"),
              ending(s)]),
    ]


def birthday(s):
    """A meal for a birthday goes wrong and ends well."""
    eggs = s.rng.randint(2, 6)
    s.bind(eggs=s.count(eggs, ("egg", "eggs")))
    return [
        join([s.say("[It was {f}'s birthday.|" + TIME + ", {h} remembered that it was {f}'s "
                    "birthday.]"),
              s.say("{h} wanted to make {f.food}, [because that was {f}'s favourite food"
                    "|because {f} always wanted to eat that]."),
              s.say("{h.He} took [flour|a cup of sugar], butter and {eggs}."),
              s.maybe("{h.He} {h.way}.", 0.4)]),
        join([s.say("[But then {h.pet} the {h.pet.kind} jumped on the table, and everything fell "
                    "on the floor. \"Oh no!\" cried {h}.|But {h} forgot the time, and soon there "
                    "was black smoke in the kitchen. \"Oh dear, it's burnt!\" said {h}."
                    "|But there was no salt and no milk in the house. \"What shall I do now?\" "
                    "said {h}.]"),
              s.say("{h} ran to {g}. \"Can you help me?\" {h.he} asked. \"[Of course|Don't worry"
                    "|Yes, with pleasure],\" said {g}, and {g.he} {g.way}."),
              s.say("Together they [began again|worked for an hour|tried it once more].")]),
        join([s.say("In the evening everybody came to {f}'s house. \"Happy birthday!\" they "
                    "[sang|shouted|cried]."), s.maybe("🎂", 0.2),
              s.say("{f} tasted the {f.food}. \"[It's wonderful|It's the best I have ever had"
                    "|It's delicious]!\" {f.he} said."),
              ending(s)]),
    ]


def broken(s):
    """Something breaks in bad weather and a helper repairs it."""
    s.bind(thing=s.say("[roof|fence|window|door|chair|cart|boat|bench]"))
    return [
        join([introduction(s), weather_today(s)]),
        join([s.say(TIME + ", {h} heard a loud crash. The {thing} was broken! "
                    "[\"Oh no!\" said {h}. \"My poor {thing}!\"|{h} looked at it and {h.way}.]"),
              s.say("{h.He} tried to repair the {thing} {h.himself}, but it was too "
                    "[hard|difficult|heavy]."),
              s.say("Then {f} came along with {f.tool}. \"[I can fix that|Let me try"
                    "|That's easy],\" said {f}."),
              s.say("{f} {f.way}, and {h} held the [ladder|wood|nails|lamp].")]),
        join([s.say("After [an hour|two hours|a long time] the {thing} was as good as new."),
              s.say("\"How can I thank you?\" asked {h}. \"With {f.food}!\" said {f}."),
              ending(s)]),
    ]


def outing(s):
    """The hero goes somewhere, sees something and meets a friend."""
    s.bind(deed=s.pick(s.p.deeds), sight=s.pick(s.p.sights))
    return [
        join([s.say("[{h} went to {p}. {today}|{today} {h} wanted to go to {p}.]",
                    today=weather_today(s)),
              s.say("{h.He} put on {w.wear} and took {h.tool} with {h.him}."),
              s.say("{h.pet} the {h.pet.kind} [came too|stayed at home and slept"
                    "|followed {h.him}].")]),
        join([s.say("There {h} {deed}. Suddenly {h.he} saw {sight}. \"[Look at that"
                    "|How beautiful|Oh, hello there]!\" said {h}."),
              s.say("[A little later|After a while|Then] {f} came by. {f} {f.way}. \"[What are you "
                    "doing here|What have you found|May I sit with you], {h}?\" {f.he} asked."),
              s.say("\"[Come and see|I'm having a rest|Sit down and be quiet],\" said {h}. They "
                    "[stayed until the evening|sat together for a long time"
                    "|talked about {f.pet}, {f}'s {f.pet.kind}]."),
              ending(s)]),
    ]


def found_thing(s):
    """The hero finds something and gives it back to its owner."""
    s.bind(thing=s.say("[key|ring|hat|purse|glove|letter|map|whistle]"))
    return [
        join([introduction(s) if s.chance(0.6) else "", weather_today(s),
              s.say(TIME + ", {h} found a {colour} {thing} {p.at}. \"[Whose {thing} is this"
                    "|Who has lost this {thing}]?\" {h.he} wondered.")]),
        join([s.say("First {h} went to {g}. \"Is this your {thing}?\" {h.he} asked. \"No, my "
                    "{thing} is {other},\" said {g}. \"[Ask {f}|Maybe it belongs to {f}"
                    "|Why don't you ask {f}]!\"",
                    other=s.pick([colour for colour in COLOURS if colour != s.colour])),
              s.say("So {h} went to {f}, who lived {f.home}. {f} was very sad. \"I can't find my "
                    "{colour} {thing},\" said {f}. \"Here it is!\" said {h}."),
              s.say("{f} {f.way}. \"You're [wonderful|a good friend|so kind],\" {f.he} said, and "
                    "gave {h} [a big piece of|some] {f.food}."),
              ending(s)]),
    ]


def stopped_clock(s):
    """The church clock stops, everyone is late, and Felix repairs it."""
    s.cast(BY_NAME["Felix"])
    hour = s.rng.randint(1, 12)
    s.bind(hour=s.number(hour))
    return [
        join([s.say(TIME + ", the church clock stopped at {hour} o'clock."),
              s.say("[Nobody knew what time it was.|Everybody was late.] {f} was late for work, "
                    "and {g} came [to breakfast in the evening|home in the middle of the night].")
              ]),
        join([s.say("\"We need Felix,\" said {f}. Felix the clockmaker was a careful man. He took "
                    "{h.tool} and climbed up to the bell. {today}", today=weather_today(s)),
              s.say("In the clock he found [a bird's nest with {n} small eggs|a sleeping owl"
                    "|{f}'s lost hat|a family of mice]. \"[So that's the problem|Well, well"
                    "|I see],\" said Felix.", n=s.number(s.rng.randint(2, 6))),
              s.say("He {h.way}, and then he moved it very gently to [a safe place"
                    "|the old tower]."),
              s.say("[Tick, tock, tick, tock!|Ding, dong!] The clock worked again."),
              s.say("{g} brought him {h.food}, and Minute the tortoise came too, an hour late.")]),
    ]


def letter_arrives(s):
    """Ben brings a letter that leads to a visit."""
    s.cast(BY_NAME["Ben"])
    return [
        join([s.say("Ben the postman rode his red bicycle through the village. {today} He "
                    "{h.way}, because he had a letter for {f}.", today=weather_today(s)),
              s.say("\"[Good morning|Hello], {f}!\" he called. \"There's a letter for you. It's "
                    "from {g}.\"")]),
        join([s.say("{f} opened it and read: \"Dear {f}, please come to {p} on {day}. Bring "
                    "{f.tool} and [something to eat|a friend|some {f.food}]. Yours, {g}.\""),
              s.say("\"[How strange|How nice|I wonder why]!\" said {f}. \"Will you come with me, "
                    "Ben?\" \"Of course I will,\" said Ben.")]),
        join([s.say("On {day} they went to {p}. There stood {g} and smiled. \"[It's a surprise"
                    "|I'm so glad you came|I didn't want to be alone],\" said {g}. {sight}",
                    sight=s.say("Behind {g.him} they saw " + s.pick(s.p.sights) + ".")),
              s.say("[They ate {g.food} and talked until it was dark."
                    "|All three of them laughed.|Then {g} began to {g.hobby}.]")]),
    ]


def quarrel(s):
    """Two friends quarrel about something and make up."""
    s.bind(thing=s.say("[kite|drum|ball|boat|book|lantern|scarf]"))
    return [
        join([s.say("{h} and {f} were [good|old] friends. But " + TIME.lower() + " they quarrelled "
                    "about a {colour} {thing}."),
              s.say("\"It's mine!\" [said|cried] {h}. \"No, it's mine! I saw it first!\" "
                    "[said|cried] {f}."),
              s.say("They pulled and pulled, and then the {thing} [broke|fell into the river"
                    "|flew away].")]),
        join([s.say("{h} went home and {verb}. {today}", today=weather_today(s),
                    verb=s.say("[didn't want to eat|sat down in the kitchen|couldn't sleep]")),
              s.say("\"[I was wrong|I wasn't a good friend|I miss {f}],\" {h.he} said to {h.pet} "
                    "the {h.pet.kind}. \"{h.pet.sound},\" said {h.pet}."),
              s.say("So {h} made {f.food} and went to {f}'s house. \"I'm sorry,\" said {h}. \"I'm "
                    "sorry too,\" said {f}. They [shared the {food}|laughed and ate together].",
                    food=s.f.food),
              s.say("[{g} saw them and smiled.|Then they made a new {thing} together, and it was "
                    "even better than the old one.]")]),
    ]


def painting(s):
    """Zoë paints a picture and an animal helps."""
    s.cast(BY_NAME["Zoë"])
    return [
        join([introduction(s) if s.chance(0.5) else "",
              s.say(TIME + ", Zoë wanted to paint a picture of [{f}|{p}|{f.pet}, {f}'s "
                    "{f.pet.kind}]."), weather_today(s)]),
        join([s.say("She took {colour} paint and {other} paint and looked at the clouds for a "
                    "while.", other=s.pick([c for c in COLOURS if c != s.colour])),
              s.say("But {f.pet} the {f.pet.kind} walked through the paint and then over the "
                    "picture. \"{f.pet.sound}!\" Now there were {colour} footprints everywhere."),
              s.say("\"I'm so sorry!\" said {f}. But Zoë [smiled|clapped her hands]. \"[It's much "
                    "better now|Now it is finished|It's perfect],\" she said.")]),
        join([s.say("Today the picture hangs in the café. José calls it [\"{f.pet}'s walk\""
                    "|\"The {colour} feet\"|\"A visit from {f.pet}\"]."),
              s.maybe("Everybody who sees it must laugh.", 0.5)]),
    ]


def hungry_animal(s):
    """The hero finds a small animal and takes care of it."""
    s.bind(baby=s.say("[duckling|hedgehog|kitten|sparrow|mouse|rabbit|puppy]"),
           nickname=s.say("[Peanut|Snowflake|Pebble|Crumb|Clementine|Dot]"))
    return [
        join([introduction(s) if s.chance(0.6) else "", weather_today(s),
              s.say("{h} walked home from {p}. [In the grass|Under a bush|Next to the path] sat a "
                    "little {baby}. It was [cold|hungry|wet|all alone]."),
              s.say("\"[You poor thing|Hello, little one|Don't be afraid],\" said {h}.")]),
        join([s.say("{h} took the {baby} home and gave it [warm milk|bread|a bowl of water|some "
                    "seeds]. {h.He} called it {nickname}."),
              s.say("At first {h.pet} the {h.pet.kind} [was jealous|was afraid|hid under the bed], "
                    "but soon {h.pet} and {nickname} slept side by side."),
              s.say("{f} came to see the {baby}. \"[It's so small|How sweet"
                    "|What a lovely {baby}]!\" said {f}, and {f.he} {f.way}.")]),
        join([s.say("[After {n} days|In the spring|The next week] {nickname} was big and strong. "
                    "[It went back to {p}, but it often came to visit.|It stayed with {h} "
                    "forever.]", n=s.number(s.rng.randint(3, 9))),
              ending(s)]),
    ]


def festival(s):
    """The village celebrates, and everyone brings something."""
    return [
        join([s.say("Every year there is a big [summer|winter|harvest|spring] festival in "
                    "Willowby. [{n} lanterns hang in the square.|Everybody brings something to "
                    "eat.]", n=s.rng.randint(20, 99)),
              s.say("{h} brought {h.food}, {f} brought {f.food}, and {g} brought {g.food}."),
              s.say("{today}", today=weather_today(s))]),
        join([s.say("[José played the guitar and Nora played the fiddle.|Anna sang an old song.] "
                    "{h} danced with {f}, and {g} danced with {g.pet} the {g.pet.kind}."),
              s.say("[Then the lights went out. \"Oh!\" said everybody. But {h} had {h.tool} and "
                    "{n} candles, and soon there was light again.|Then {f.pet} the {f.pet.kind} "
                    "ate all the {g.food}. {g} {g.way}, and everybody laughed.|At midnight they "
                    "looked at the stars. \"I can see {n} of them,\" said {f}.]",
                    n=s.number(s.rng.randint(3, 12))),
              ending(s)]),
    ]


def lesson(s):
    """Rosa asks the pupils a question about numbers."""
    thing = s.things(1)[0]
    first, second = s.rng.randint(1, 9), s.rng.randint(1, 9)
    minus = s.chance(0.4)
    first, second = (max(first, second) + 1, min(first, second)) if minus else (first, second)
    s.cast(BY_NAME["Rosa"], BY_NAME[s.pick(("Mila", "Tom"))])
    s.bind(a=s.count(first, thing), n=second, things=thing[1], first=first,
           result=first - second if minus else first + second, sign="-" if minus else "+",
           verb="gives away" if minus else "finds", more="" if minus else " more")
    return [
        join([s.say("In the school of Willowby, Rosa stood in front of the children. {today}",
                    today=weather_today(s)),
              s.say("\"[Listen|Now listen|Here is a question],\" she said. \"{g} has {first} "
                    "{things}. Then {g.he} {verb} {n}{more}. How many {things} does {g.he} "
                    "have now?\"")]),
        join([s.say("[{f} thought about it.|{f} counted on {f.his} fingers.] \"{result}!\" said "
                    "{f}. \"Because {first} {sign} {n} = {result}.\" \"[Very good|That's right"
                    "|Well done], {f}!\" said Rosa."),
              s.say("[Then the bell rang, and the children ran outside.|Ink the cat woke up and "
                    "went back to sleep.|\"Now you may all go home,\" she said.]")]),
    ]


def sleepless(s):
    """The hero cannot sleep and takes a walk at night."""
    s.bind(sheep=s.rng.randint(12, 98))
    return [
        join([s.say("It was night in Willowby. The moon was shining, but {h} couldn't sleep."),
              s.say("{h.He} counted sheep. [After {sheep} sheep {h.he} was still awake"
                    "|\"1, 2, 3, 4, 5, 6, 7...\" But it didn't help]."),
              s.say("So {h} got up, put on {h.his} [coat|slippers|hat] and went [outside|to {p}].")
              ]),
        join([s.say("There sat {f}. \"Can't you sleep either?\" asked {f}. \"[No|Not at all],\" "
                    "said {h}. \"[I'm thinking about tomorrow|The moon is too bright"
                    "|{h.pet} the {h.pet.kind} snores].\""),
              s.say("{f} told {h.him} a story about [a dragon who was afraid of mice|a king "
                    "without shoes|a ship that sailed to the moon|a very small giant]."),
              s.say("[At the end of the story {h} was fast asleep.|\"Good night, {f},\" said {h}. "
                    "\"Good night, {h},\" said {f}.]"), s.maybe("🌙", 0.15)]),
    ]


def race(s):
    """Two people race, and the slower one wins by being clever."""
    s.cast(s.h, BY_NAME["Ben"] if s.h.name != "Ben" else None)
    return [
        join([s.say("\"I'm the fastest in Willowby,\" said {f}. \"[No, you aren't|I don't believe "
                    "that|Let's see],\" said {h}. \"Let's race to {p}!\""),
              s.say("{g} counted: \"One, two, three, go!\" {today}", today=weather_today(s))]),
        join([s.say("{f} was far ahead. But then {f.he} [stopped to eat {f.food}|fell into a puddle"
                    "|saw {sight} and stood still].", sight=s.pick(s.p.sights)),
              s.say("{h} didn't stop. {h.He} was {h.trait}, and {h.he} {h.way}. [Step by step"
                    "|Slowly but surely] {h.he} came to {p}."),
              s.say("\"{h} is the winner!\" cried {g}. {h} got a {colour} ribbon and {h.food}."),
              s.say("\"[Next time I won't stop|That was fun|You were better],\" said {f}, and "
                    "they shook hands.")]),
    ]


def long_day(s):
    """A day of the hero with a few small events, from the morning to the night."""
    return [
        join([introduction(s) if s.chance(0.5) else "",
              s.say("[" + TIME + ", {h} woke up.|{h} woke up because {h.pet} the {h.pet.kind} "
                    "was hungry.|When {h} opened the window, {h.he} saw the {w.kind} sky.]"
                    if s.w.kind != "hot" else TIME + ", {h} woke up."),
              weather_today(s),
              s.say("For breakfast {h.he} had [{h.food}|tea and bread|an egg|a bowl of soup"
                    "|{n} cookies] and [a cup of coffee|a glass of milk|a cup of tea].",
                    n=s.number(s.rng.randint(2, 6)))]),
        *events(s, s.rng.randint(2, 5)),
        join([s.say("In the evening {h} [was tired|went home|sat by the fire|looked at the moon]."),
              ending(s)]),
    ]


PLOTS = (
    lost_pet, shopping, shopping, birthday, broken, outing, outing, found_thing, stopped_clock,
    letter_arrives, quarrel, painting, hungry_animal, festival, lesson, sleepless, race, long_day,
    long_day, long_day,
)


def story(s):
    """Returns one story, in paragraphs or in one piece, sometimes with a title."""
    s.bind(day=s.pick(DAYS))
    plot = s.pick(PLOTS)
    paragraphs = plot(s)
    if s.chance(0.35):
        paragraphs.insert(s.rng.randint(1, len(paragraphs) - 1), event(s))
    text = ("\n\n" if s.chance(0.6) else " ").join(paragraphs)
    return text + ("\n\nThe end." if s.chance(0.1) else "")
