"""Four tasks with known answers, always the same: records to extract from sentences, requests to route to a
function with its argument, lists of words, and lists of records."""

import random


def record(**properties):
    return {
        "type": "object", "additionalProperties": False, "required": list(properties), "properties": properties,
    }  # fmt: skip


NAME = {"type": "string", "maxLength": 40}
EXTRACTION = record(
    customer_name=NAME,
    purchase_date={"type": "string", "format": "date"},
    total_amount={"type": "number", "minimum": 0, "maximum": 10000},
    product={"enum": ["book", "lamp", "chair", "phone", "bicycle", "coat"]},
)
LIST = record(items={"type": "array", "items": {"type": "string"}})
PEOPLE = record(people={"type": "array", "items": record(name=NAME, age={"type": "integer"})})
CITIES = ["Paris", "Tokyo", "Cairo", "Lima", "Oslo", "Madrid", "Delhi", "Boston", "Berlin", "Rome"]


def function(name, argument, content):
    return record(function={"const": name}, **{argument: content})


ROUTING = {
    "anyOf": [
        function("get_weather", "city", NAME),
        function("set_timer", "minutes", {"type": "integer", "minimum": 1, "maximum": 120}),
        function("play_music", "genre", {"enum": ["jazz", "rock", "classical", "blues"]}),
    ]
}
FIRST = ["Anna", "Peter", "Maria", "John", "Lucy", "Omar", "Nina", "David", "Elena", "Tom"]
FRUITS = ["apples", "bananas", "cherries", "grapes", "lemons", "pears", "plums", "figs"]
LAST = ["Schmidt", "Jones", "Garcia", "Brown", "Rossi", "Khan", "Novak", "Miller", "Costa", "Reed"]
SOLD = [
    "On {date}, {name} bought a {item} for {amount} dollars.",
    "{name} paid {amount} dollars for a {item} on {date}.",
    "Invoice of {date}: one {item}, {amount} dollars, sold to {name}.",
]
ASKED = [
    ("What is the weather like in {}?", "get_weather", "city", CITIES),
    ("Will it rain in {} today?", "get_weather", "city", CITIES),
    ("Wake me in {} minutes.", "set_timer", "minutes", range(2, 60)),
    ("Set a timer for {} minutes, please.", "set_timer", "minutes", range(2, 60)),
    ("I would like to hear some {}.", "play_music", "genre", ["jazz", "rock", "classical", "blues"]),
    ("Put on {} music.", "play_music", "genre", ["jazz", "rock", "classical", "blues"]),
]


def extraction(draw):
    record = {
        "customer_name": f"{draw.choice(FIRST)} {draw.choice(LAST)}",
        "purchase_date": f"20{draw.randint(10, 25)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}",
        "total_amount": draw.choice([draw.randint(5, 900), draw.randint(500, 90000) / 100]),
        "product": draw.choice(EXTRACTION["properties"]["product"]["enum"]),
    }
    name, date, amount, item = record.values()
    return draw.choice(SOLD).format(name=name, date=date, amount=amount, item=item), record


def routing(draw):
    words, name, argument, values = draw.choice(ASKED)
    value = draw.choice(values)
    return words.format(value), {"function": name, argument: value}


def words(draw):
    items = draw.sample(FRUITS, draw.randint(2, 4))
    return f"I went to the market and bought {', '.join(items[:-1])} and {items[-1]}.", {"items": items}


def people(draw):
    at_table = [{"name": name, "age": draw.randint(18, 80)} for name in draw.sample(FIRST, draw.randint(2, 3))]
    said = "; ".join(f"{one['name']}, who is {one['age']}" for one in at_table)
    return f"At the table: {said}.", {"people": at_table}


ASK = {
    "extraction": (
        "Extract the purchase from the text, as JSON with the fields customer_name, purchase_date (YYYY-MM-DD),"
        " total_amount (a number) and product. Write only the JSON.",
        extraction, EXTRACTION,
    ),
    "routing": (
        "Choose a function for the request, as JSON. Either {\"function\":\"get_weather\",\"city\":...} or"
        " {\"function\":\"set_timer\",\"minutes\":...} or {\"function\":\"play_music\",\"genre\":...}. Write only the JSON.",
        routing, ROUTING,
    ),
    "list": (
        "List what was bought, as JSON with the field items, a list of words. Write only the JSON.",
        words, LIST,
    ),
    "people": (
        "List the people, as JSON with the field people, a list of objects with name and age. Write only the JSON.",
        people, PEOPLE,
    ),
}  # fmt: skip


def make(task, n):
    """Returns the task's instruction, n pairs (text, right answer), and its schema."""
    instruction, one, schema = ASK[task]
    draw = random.Random(task)
    return instruction, [one(draw) for _ in range(n)], schema
