"""Tasks for lm-eval whose data is made here: questions with four choices about what a small model may know, the same
questions to be answered in words, and prose whose likelihood is measured."""

import json
import random

CAPITALS = """Argentina Buenos Aires|Australia Canberra|Austria Vienna|Belgium Brussels|Bolivia La Paz|Brazil Brasília|Bulgaria Sofia
Canada Ottawa|Chile Santiago|China Beijing|Colombia Bogotá|Cuba Havana|Denmark Copenhagen|Egypt Cairo|Ethiopia Addis Ababa|Finland Helsinki
France Paris|Germany Berlin|Ghana Accra|Greece Athens|Hungary Budapest|Iceland Reykjavik|India New Delhi|Indonesia Jakarta|Iran Tehran
Iraq Baghdad|Ireland Dublin|Israel Jerusalem|Italy Rome|Japan Tokyo|Jordan Amman|Kenya Nairobi|Lebanon Beirut|Mexico Mexico City
Mongolia Ulaanbaatar|Morocco Rabat|Nepal Kathmandu|Netherlands Amsterdam|Nigeria Abuja|Norway Oslo|Pakistan Islamabad|Peru Lima
Poland Warsaw|Portugal Lisbon|Romania Bucharest|Russia Moscow|Senegal Dakar|Serbia Belgrade|Spain Madrid|Sudan Khartoum|Sweden Stockholm
Syria Damascus|Thailand Bangkok|Tunisia Tunis|Turkey Ankara|Ukraine Kyiv|Uruguay Montevideo|Venezuela Caracas|Vietnam Hanoi|Zambia Lusaka"""
OPPOSITES = """hot cold|big small|fast slow|high low|light dark|old young|rich poor|happy sad|early late|full empty|hard soft|wet dry
strong weak|wide narrow|clean dirty|near far|open closed|loud quiet|thick thin|heavy light|true false|deep shallow|sharp blunt|sweet bitter
always never|begin end|buy sell|come go|day night|first last|friend enemy|give take|inside outside|left right|love hate|more less
north south|push pull|question answer|remember forget|summer winter|teach learn|top bottom|up down|victory defeat|war peace|win lose|work play"""
KINDS = """dog animal|oak tree|rose flower|salmon fish|eagle bird|copper metal|apple fruit|carrot vegetable|hammer tool|violin instrument
chair furniture|shirt clothing|bee insect|snake reptile|red color|triangle shape|Monday day|July month|doctor profession|football sport
milk drink|bread food|car vehicle|gold metal|piano instrument|pine tree|tulip flower|shark fish|sparrow bird|banana fruit|potato vegetable
ant insect|lizard reptile|blue color|square shape|Friday day|March month|lawyer profession|tennis sport|coffee drink|cheese food|truck vehicle"""
PROSE = """The village lay between two hills, and a small river ran through it. In spring the children built boats of bark and let them
swim under the bridge. The baker opened his shop before the sun rose, so the first thing that anybody smelled was bread.|A computer
program is a list of instructions. The processor reads them one after the other, and does what each of them says. A loop repeats
instructions until a condition holds; a function gives a name to a list of them, so that it can be used again.|Water boils at one
hundred degrees at sea level. On a mountain the air presses less on its surface, and it boils earlier. Cooking an egg there
takes longer, because the water cannot get hotter than its boiling point."""


def pairs(text):
    """Splits "a b|c d" at the first space of each; a country may have a capital of two words."""
    return [tuple(one.strip().split(" ", 1)) for one in text.replace("\n", "|").split("|")]


def with_choices(rng, answer, others):
    """Returns four choices in a random order, and the place of the answer."""
    options = [answer, *rng.sample(sorted(set(others) - {answer}), 3)]
    rng.shuffle(options)
    return options, options.index(answer)


def questions(rng):
    """Yields (text, choices, place of the right one)."""
    for templates, known in (
        (("The capital of {} is", "Question: What is the capital of {}?\nAnswer:", "If you visit {}, do not miss its capital,"), CAPITALS),
        (("The opposite of {} is", "Question: Which word means the opposite of \"{}\"?\nAnswer:"), OPPOSITES),
        (("The word \"{}\" is the name of a kind of", "Question: What kind of thing is \"{}\"?\nAnswer: a kind of"), KINDS),
    ):
        known = pairs(known)
        for template in templates:
            for asked, answer in known:
                yield template.format(asked), *with_choices(rng, answer, (b for a, b in known if a != asked))
    for a in range(2, 12):
        for b in range(3, 10, 2):
            yield f"{a} + {b} =", *with_choices(rng, str(a + b), map(str, range(2, 22)))


def write_task(folder, name, documents, members):
    data = folder / f"{name}.jsonl"
    data.write_text("".join(json.dumps(one) + "\n" for one in documents))
    members = {"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(data)}}, "test_split": "test",
               "metadata": {"version": 1}} | members  # fmt: skip
    (folder / f"{name}.yaml").write_text(json.dumps(members))  # which is YAML


def write_tasks(folder, n_items):
    """Writes the tasks "facts", "questions" and "prose", of at most n_items documents each, to a folder that it makes."""
    folder.mkdir()
    rng = random.Random(1)
    items = list(questions(rng))
    rng.shuffle(items)
    documents = [{"question": text, "choices": choices, "answer": place} for text, choices, place in items[:n_items]]
    write_task(folder, "facts", documents, {
        "output_type": "multiple_choice", "doc_to_text": "{{question}}", "doc_to_choice": "{{choices}}", "doc_to_target": "{{answer}}",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}]})  # fmt: skip
    write_task(folder, "questions", documents[:40], {
        "output_type": "generate_until", "doc_to_text": "{{question}}", "doc_to_target": "{{choices[answer]}}",
        "generation_kwargs": {"until": ["\n", "."], "max_gen_toks": 8, "do_sample": False},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}]})  # fmt: skip
    write_task(folder, "prose", [{"text": text.replace("\n", " ")} for text in PROSE.split("|")], {
        "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{text}}",
        "metric_list": [{"metric": "word_perplexity"}]})  # fmt: skip
