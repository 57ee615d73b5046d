"""The village of Willowby: its people, animals, places, weather and things."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pet:
    """An animal that lives with a person."""

    colour: str
    kind: str
    name: str
    sound: str
    trick: str

    def __str__(self):
        return self.name


@dataclass(frozen=True)
class Person:
    """A person who lives in Willowby; the pronouns depend on `female`."""

    name: str
    female: bool
    job: str
    trait: str
    way: str
    place: str
    home: str
    hobby: str
    food: str
    tool: str
    pet: Pet

    def __str__(self):
        return self.name

    @property
    def child(self):
        return self.job in ("girl", "boy")

    @property
    def he(self):
        return "she" if self.female else "he"

    @property
    def He(self):
        return self.he.capitalize()

    @property
    def him(self):
        return "her" if self.female else "him"

    @property
    def his(self):
        return "her" if self.female else "his"

    @property
    def His(self):
        return self.his.capitalize()

    @property
    def himself(self):
        return self.him + "self"

    @property
    def a_trait(self):
        """Returns the trait with its indefinite article."""
        return ("an " if self.trait[0] in "aeiou" else "a ") + self.trait


PEOPLE = (
    Person("Mila", True, "girl", "curious", "asked a hundred questions", "at school",
           "by the old mill", "climb trees", "plum cake", "a magnifying glass",
           Pet("grey", "cat", "Pepper", "Meow", "sleeps in a basket")),
    Person("Tom", False, "boy", "shy", "spoke in a very quiet voice", "at school",
           "behind the church", "fly kites", "pancakes", "a pocket knife",
           Pet("brown", "dog", "Biscuit", "Woof", "steals socks")),
    Person("Anna", True, "baker", "cheerful", "laughed until the windows shook",
           "in the bakery", "above the bakery", "sing", "cinnamon rolls", "a rolling pin",
           Pet("yellow", "canary", "Pip", "Tweet", "sings before sunrise")),
    Person("Otto", False, "fisherman", "patient", "waited and smiled", "on the lake",
           "in a blue house by the lake", "tell stories", "fish soup", "a long rope",
           Pet("white", "goose", "Greta", "Honk", "chases the postman")),
    Person("Rosa", True, "teacher", "kind", "listened to every word", "at school",
           "next to the school", "read books", "lemon cake", "a piece of chalk",
           Pet("black", "cat", "Ink", "Meow", "sits on open books")),
    Person("Ben", False, "postman", "quick", "ran as fast as the wind", "at the post office",
           "on the hill", "ride his bicycle", "cheese bread", "a red bicycle",
           Pet("speckled", "hen", "Stamp", "Cluck", "rides in the mail bag")),
    Person("Nora", True, "farmer", "strong", "rolled up her sleeves", "on the farm",
           "on the farm", "play the fiddle", "potato soup", "a big shovel",
           Pet("brown", "horse", "Clover", "Neigh", "opens every gate")),
    Person("Felix", False, "clockmaker", "careful", "checked everything twice",
           "in the workshop", "in a narrow house near the square", "count the stars",
           "apple pie", "a tiny screwdriver",
           Pet("green", "tortoise", "Minute", "Hm", "comes home late")),
    Person("Zoë", True, "painter", "dreamy", "looked at the clouds for a while",
           "in the studio", "in a yellow cottage by the river", "draw birds",
           "strawberry pie", "a paintbrush",
           Pet("white", "rabbit", "Snow", "Sniff", "nibbles on brushes")),
    Person("José", False, "cook", "generous", "gave everybody a second helping",
           "in the café", "above the café", "play the guitar", "crème brûlée", "a wooden spoon",
           Pet("green", "parrot", "Coco", "Olé", "orders coffee all day")),
    Person("Edith", True, "gardener", "wise", "nodded slowly", "in the garden",
           "at the edge of the forest", "knit scarves", "honey toast", "a watering can",
           Pet("woolly", "sheep", "Button", "Baa", "eats the roses")),
    Person("Lars", False, "carpenter", "loud", "shouted with joy", "at the bridge",
           "beside the bridge", "build birdhouses", "onion tart", "a heavy hammer",
           Pet("brown", "goat", "Nail", "Meh", "climbs on roofs")),
)

BY_NAME = {person.name: person for person in PEOPLE}

RELATIONS = (
    ("Edith", "Mila", "grandmother"),
    ("Otto", "Tom", "uncle"),
    ("Anna", "Lars", "sister"),
    ("Mila", "Tom", "best friend"),
    ("Felix", "Rosa", "brother"),
    ("José", "Zoë", "neighbour"),
    ("Nora", "Ben", "cousin"),
)


@dataclass(frozen=True)
class Place:
    """A place to go to, and what people do and see there."""

    name: str
    at: str
    deeds: tuple
    sights: tuple

    def __str__(self):
        return self.name


PLACES = (
    Place("the lake", "at the lake",
          ("threw flat stones into the water", "watched the ducks", "sat in the old boat",
           "put {h.his} feet into the cold water"),
          ("a silver fish", "a family of ducks", "a small boat", "a green frog")),
    Place("the forest", "in the forest",
          ("picked mushrooms", "followed a narrow path", "listened to the woodpecker",
           "collected pine cones"),
          ("a red squirrel", "a sleepy owl", "a young deer", "a hollow tree")),
    Place("the market", "at the market",
          ("looked at all the stalls", "bought a bag of cherries", "tasted the cheese",
           "talked to the farmers"),
          ("a mountain of pumpkins", "a man with balloons", "a basket of kittens")),
    Place("the hill", "on the hill",
          ("rolled down the grass", "watched the clouds", "counted the roofs of the village",
           "picked wild flowers"),
          ("a flock of sheep", "a blue butterfly", "a bright rainbow", "a tiny snail")),
    Place("the river", "by the river",
          ("built a dam out of stones", "sailed a paper boat", "looked for round pebbles",
           "crossed the wooden bridge"),
          ("a heron", "a busy beaver", "a floating bottle", "a green frog")),
    Place("the square", "in the square",
          ("sat down on the bench", "fed the pigeons", "listened to the music",
           "drank from the fountain"),
          ("a travelling musician", "a fat pigeon", "a cart full of hay")),
    Place("the garden", "in the garden",
          ("watered the roses", "pulled out the weeds", "ate a sweet strawberry",
           "planted a row of beans"),
          ("a hungry caterpillar", "a hedgehog", "a big yellow sunflower", "a bumblebee")),
    Place("the farm", "on the farm",
          ("fed the chickens", "brushed the horse", "carried a bucket of milk",
           "slept in the hay"),
          ("a muddy piglet", "a newborn calf", "a proud rooster")),
    Place("the café", "in the café",
          ("drank a cup of hot chocolate", "ate a croissant", "listened to the guitar music",
           "read the newspaper"),
          ("a green parrot", "a table full of cakes", "a very tall stranger")),
    Place("the library", "in the library",
          ("read a book about dragons", "looked at an old map", "whispered with the other readers",
           "borrowed a thick book"),
          ("a black cat on a shelf", "a book without a title", "a dusty globe")),
)


@dataclass(frozen=True)
class Weather:
    """A kind of day; every phrase fits the weather."""

    kind: str
    opening: str
    effect: str
    wear: str
    close: str
    emoji: str


WEATHERS = (
    Weather("sunny", "[The sun was shining|The sky was blue|It was a warm and sunny day]",
            "[The whole village was outside|The cats slept on the warm stones]",
            "a straw hat", "The sun went down behind the hill.", "☀️"),
    Weather("rainy", "[It was raining|Rain fell on the roofs|The sky was grey and wet]",
            "[There were puddles everywhere|The frogs were very happy]",
            "[a yellow raincoat|rubber boots]", "At last the rain stopped.", "🌧️"),
    Weather("windy", "[A strong wind blew|The wind was howling|It was a windy day]",
            "[Leaves danced through the streets|Hats flew over the square]",
            "a thick jacket", "In the evening the wind fell asleep.", "🍃"),
    Weather("snowy", "[Snow covered the village|It was snowing|It was cold and white outside]",
            "[The lake was frozen|Every roof wore a white cap]",
            "[a woollen scarf|warm gloves]", "Outside, the snow kept falling.", "❄️"),
    Weather("foggy", "[The fog was thick|A grey fog lay on the river|It was a foggy day]",
            "[Nobody could see the church tower|The ducks were only voices]",
            "a warm coat", "Slowly the fog went away.", "🌫️"),
    Weather("hot", "[It was very hot|The air was hot and still|It was the hottest day of the year]",
            "[Even the bees were tired|The dogs lay in the shade]",
            "a thin shirt", "The evening was cool at last.", "🌞"),
)

THINGS = (
    ("apple", "apples"), ("pear", "pears"), ("plum", "plums"), ("egg", "eggs"),
    ("carrot", "carrots"), ("button", "buttons"), ("shell", "shells"), ("coin", "coins"),
    ("candle", "candles"), ("fish", "fish"), ("book", "books"), ("flower", "flowers"),
    ("nut", "nuts"), ("stone", "stones"), ("croissant", "croissants"), ("letter", "letters"),
    ("potato", "potatoes"), ("cherry", "cherries"), ("feather", "feathers"),
    ("lantern", "lanterns"), ("cookie", "cookies"), ("mushroom", "mushrooms"),
)

COLOURS = ("red", "blue", "green", "yellow", "white", "black", "brown", "silver", "golden")

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
           "ten", "eleven", "twelve")

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August",
          "September", "October", "November", "December")
