"""Task and columns of tables as people export them, each made by a short function."""

from __future__ import annotations

import csv
import random

import pytest

from regard.data.recognition.inspection import inspect
from tests.data.recognition.test_roles import roles_of
from tests.messages import check_message

NUM_ROWS = 300
TOPICS = {
    "J45": ("wheezing at night", "tight chest", "short of breath"),
    "I10": ("high blood pressure", "hypertension", "dizzy and hot"),
    "E11": ("thirst and tired", "raised blood sugar", "weight loss"),
    "M54": ("low back pain", "stiff back", "pain after lifting"),
}
DETAILS = ("since Monday", "for two weeks", "after lunch", "in the morning", "on stairs", "at work")
ENDS = ("no fever", "takes aspirin", "anxious", "works outside", "asks for advice", "wants a call")
NAMES = ("Anna", "Ben", "Çağla", "Đorđe", "Zoë")
PRICES = {"Sofa": 900, "Lamp": 60, "Desk": 300, "Rug": 200, "Bed": 1100}
WOODS = {"oak": 1.6, "pine": 1.0, "steel": 1.2, "velvet": 1.8}
CONSONANTS, VOWELS = "bdfgklmnprst", "aeiou"


def text_of(draw, topic):
    return ", ".join((draw.choice(TOPICS[topic]), draw.choice(DETAILS), draw.choice(ENDS)))


def word_of(draw, syllables=None):
    number = syllables or draw.randint(2, 5)
    return "".join(draw.choice(CONSONANTS) + draw.choice(VOWELS) for _ in range(number))


def phrase_of(draw):
    return [word_of(draw) for _ in range(draw.randint(2, 8))]


def date_of(n):
    return f"2026-{n % 12 + 1:02d}-{n % 28 + 1:02d}"


def gradebook(n, draw):
    topic = draw.choice([*TOPICS])
    grade = 1 + [*TOPICS].index(topic)
    return (
        n + 1,
        draw.choice(NAMES),
        date_of(n),
        "" if n % 4 else "Sport",
        text_of(draw, topic),
        grade,
    )


def visits(n, draw):
    topic = draw.choice([*TOPICS])
    urgency, referred = draw.choice(["low", "mid", "high"]), draw.choice(["yes", "no", ""])
    day = f"{n % 28 + 1:02d}.{n % 12 + 1:02d}.2026"
    age = draw.randint(18, 90)
    return f"P{n % 140:04d}", day, text_of(draw, topic), topic, urgency, referred, age


def library(n, draw):
    topic = draw.choice([*TOPICS])
    title, author = f"{text_of(draw, topic)}. Band {n % 3}", f"Müller, {chr(65 + n % 26)}."
    price = f"{draw.randint(5, 60)},{draw.randint(0, 99):02d} €"
    return f"{n:05d}/A", title, author, n, price, 1990 + n % 30, 100 + [*TOPICS].index(topic)


def product(draw):
    wood, thing = draw.choice([*WOODS]), draw.choice([*PRICES])
    price = PRICES[thing] * WOODS[wood] * draw.uniform(0.95, 1.05)
    return f"{wood} {thing} {word_of(draw).title()}", thing, price


def shop(n, draw):
    title, thing, price = product(draw)
    html = f"<p>A <b>{thing}</b> made of {title.split()[0]}.<br/>Delivery in {n % 9} days.</p>"
    url, stock = f"https://shop.example.com/p/{n}-{thing}", draw.choice(["", "0", "12", "n/a"])
    return (
        f"A{n:05d}",
        title if n % 50 else "",
        html,
        url,
        stock,
        f"{price:,.2f}",
        f"{n % 12 + 1}/1/2026",
    )


def shop_without_descriptions(n, draw):
    sku, title, _, url, stock, price, day = shop(n, draw)
    return sku, title, url, stock, price, day


def labelled_questions(n, draw):
    topic = draw.choice([*TOPICS])
    return n, text_of(draw, topic), draw.choice(["low", "high"]), topic, draw.choice(NAMES)


def short_questions(n, draw):
    colour = draw.choice(["red", "blue"])
    return f"how {n % 13} is {colour}", "colour" if colour == "red" else "form"


def interlinear(n, draw):
    words = phrase_of(draw)
    gloss = " ".join(f"{word[::-1]}-{draw.choice(['NOM', 'PST'])}" for word in words)
    return n, draw.choice("ABC"), "2020-01-01", " ".join(words), gloss, "..."


def survey(n, draw):
    topic = draw.choice([*TOPICS])
    likert = [draw.randint(1, 5) for _ in range(3)]
    return f"R_{n * 7919:08d}", date_of(n), *likert, text_of(draw, topic), [*TOPICS].index(topic)


def reviews(n, draw):
    topic = draw.choice([*TOPICS])
    stars = 2 + [*TOPICS].index(topic)
    return (
        f"B{n:08d}",
        draw.choice(NAMES),
        stars,
        draw.randint(0, 30),
        text_of(draw, topic),
        date_of(n),
    )


def tickets(n, draw):
    topic = draw.choice([*TOPICS])
    time = f"{date_of(n)}T10:00:00Z"
    return n, text_of(draw, topic), draw.choice([1, 2, 3]), f"{topic} team", time


def mails(n, draw):
    topic = draw.choice([*TOPICS])
    body = ". ".join(text_of(draw, topic) for _ in range(3))
    return (
        f"{n % 28 + 1}.3.2026 10:{n % 60:02d}",
        f"{NAMES[n % 5].lower()}{n}@example.org",
        text_of(draw, topic),
        body,
        topic,
    )


def dictionary(n, draw):
    word = word_of(draw)
    return word, draw.choice(["noun", "verb", "adj."]), word[::-1] + draw.choice(["", "e"])


def numbered_dictionary(n, draw):
    word = word_of(draw)
    return n + 1, word, word.upper().translate(str.maketrans("ABDE", "ΑΒΔΕ")), "", date_of(n)


def ipa(n, draw):
    word = word_of(draw)
    return word, " ".join(word.replace("a", "ɑ")), n % 7


def regions(n, draw):
    word = word_of(draw)
    latin, cyrillic = (
        word.title(),
        word.translate(str.maketrans("abdefgiklmnoprstu", "абдефгиклмнопрсту")),
    )
    return f"RU-{latin[:3].upper()}", latin, cyrillic, draw.choice(["yes", "no"])


def timesheet(n, draw):
    topic = draw.choice([*TOPICS])
    return (
        date_of(n),
        f"{8 + n % 3}:{n % 60:02d}",
        "17:30",
        draw.choice(NAMES),
        text_of(draw, topic),
        topic,
    )


def translations(n, draw):
    words = phrase_of(draw)
    return n, " ".join(words), " ".join(word[::-1] for word in words), draw.choice(["web", "book"])


def subtitles(n, draw):
    words = phrase_of(draw)
    return (
        f"00:{n % 60:02d}:01,000",
        f"00:{n % 60:02d}:03,500",
        " ".join(words),
        " ".join(words[::-1]),
    )


def packages(n, draw):
    topic = draw.choice([*TOPICS])
    name, version = word_of(draw), f"{n % 9}.{n % 7}-{n % 3}"
    site, size = f"https://{name}.example.org", draw.randint(10, 90000)
    return (
        name,
        version,
        text_of(draw, topic),
        topic,
        size,
        site,
        f"{draw.choice(NAMES)} <a@example.org>",
    )


def offers(n, draw):
    title, _, price = product(draw)
    return n, title, word_of(draw).title(), f"{price:.2f}".replace(".", ",")


def bookings(n, draw):
    topic = draw.choice([*TOPICS])
    return date_of(n), f"DE{draw.randint(10**9, 10**10)}", text_of(draw, topic), f"-{n},50", topic


def names_of_languages(n, draw):
    word = word_of(draw)
    return f"{word[:3]}", word.title(), word.title()[:-1] + "e"


def flowers(n, draw):
    return *(f"{draw.uniform(1, 6):.1f}" for _ in range(3)), draw.choice(["a", "b", "c"])


def inflection(n, draw):
    word = word_of(draw)
    return word, f"{word}en", draw.choice(["nom", "gen"]), draw.choice(["sg", "pl"])


# fmt: off
EVERYDAY = [
    (gradebook, "Nr.,Name,Datum,Fach,Bemerkung,Note", "Bemerkung", "Note", "labels"),
    (visits, "patient_id,visit date,complaint,ICD-10,urgency,referred,age", "complaint",
     "ICD-10", "labels"),
    (library, "Signatur,Titel,Autor,Titel,Preis,Erschienen,Systematik",
     "Titel", "Systematik", "labels"),
    (shop, "SKU,Product title,Description,URL,Stock,Price (EUR),Last changed",
     "Description", "Price (EUR)", "values"),
    (shop_without_descriptions, "SKU,Product title,URL,Stock,Price (EUR),Last changed",
     "Product title", "Price (EUR)", "values"),
    (labelled_questions, "id,Frage,dringend,Thema,wer", "Frage", "Thema", "labels"),
    (short_questions, "Frage,Kategorie", "Frage", "Kategorie", "labels"),
    (interlinear, "id,meta.speaker,meta.date,utterance.orthography,utterance.gloss,notes",
     "utterance.orthography", "utterance.gloss", "letters"),
    (survey, "ResponseId,date,Q1,Q2,Q3,Q4 (open),coded", "Q4 (open)", "coded", "labels"),
    (reviews, "asin,user,stars,helpful,review,date", "review", "stars", "labels"),
    (tickets, "id,question,priority,team,created", "question", "team", "labels"),
    (mails, "Datum,Von,Betreff,Text,Ordner", "Text", "Ordner", "labels"),
    (dictionary, "Wort,Wortart,Übersetzung", "Wort", "Übersetzung", "letters"),
    (numbered_dictionary, "№,Название,Перевод,Заметки,Дата", "Название", "Перевод", "letters"),
    (ipa, "mot,API,fréquence", "mot", "API", "letters"),
    (regions, "Код,латиницей,по-русски,Проверено", "латиницей", "по-русски", "letters"),
    (timesheet, "Datum,von,bis,wer,Tätigkeit,Projekt", "Tätigkeit", "Projekt", "labels"),
    (translations, "id,English,Deutsch,Quelle", "English", "Deutsch", "letters"),
    (subtitles, "start,end,original,translated", "original", "translated", "letters"),
    (packages, "Package,Version,Summary,Section,Size,Homepage,Maintainer",
     "Summary", "Section", "labels"),
    (offers, "Nr.,Artikel,Marke,Preis", "Artikel", "Preis", "values"),
    (bookings, "Buchungstag,IBAN,Verwendungszweck,Betrag,Kategorie",
     "Verwendungszweck", "Kategorie", "labels"),
    (names_of_languages, "code,name,other name", "name", "other name", "letters"),
    (flowers, "sepal,petal,stem,species", "sepal", "species", "labels"),
    (inflection, "lemma,form,case,number", "lemma", "form", "letters"),
]
# fmt: on


def table_of(make, num_rows=NUM_ROWS):
    draw = random.Random(7)
    return [tuple(map(str, make(n, draw))) for n in range(num_rows)]


def columns_of(names, roles):
    head = names.split(",")
    return head[roles.source], head[roles.target], roles.recipe


@pytest.mark.parametrize(("make", "names", "source", "target", "recipe"), EVERYDAY)
def test_columns_of_everyday_tables(make, names, source, target, recipe):
    roles = roles_of(names.split(","), table_of(make))
    chosen, recipes = columns_of(names, roles), {"letters": ("letters", "words")}
    assert chosen[:2] == (source, target)
    assert chosen[2] in recipes.get(recipe, (recipe,))
    if names.count(source) == 1:
        shuffled = table_of(make)
        random.Random(3).shuffle(shuffled)
        assert columns_of(names, roles_of(names.split(","), shuffled)) == chosen


@pytest.mark.parametrize(("make", "names", "source", "target", "recipe"), EVERYDAY[:5])
def test_a_row_of_totals_changes_no_column(make, names, source, target, recipe):
    rows, head = table_of(make), names.split(",")
    totals = [""] * len(head)
    totals[-2:] = ["TOTAL", "412,331.20"]
    assert columns_of(names, roles_of(head, [*rows, totals]))[:2] == (source, target)


def written(tmp_path, make, names, num_rows=NUM_ROWS):
    path = tmp_path / "table.csv"
    with path.open("w", encoding="utf8", newline="") as file:
        csv.writer(file).writerows([names.split(","), *table_of(make, num_rows)])
    return path


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (visits, "patient_id,visit date,complaint,ICD-10,urgency,referred,age"),
        (library, "Signatur,Titel,Autor,Titel,Preis,Erschienen,Systematik"),
        (labelled_questions, "id,Frage,Thema,dringend,wer"),
        (
            lambda n, draw: (word_of(draw), draw.choice("abc"), draw.choice("xyz")),
            "word,first,second",
        ),
        (
            lambda n, draw: (f"{NAMES[n % 5]} {word_of(draw)}", NAMES[n % 5], "abcde"[n % 5]),
            "text,name,letter",
        ),
        (
            lambda n, draw: (date_of(n), draw.randint(0, 10**6), draw.choice("abc")),
            "day,reading,kind",
        ),
        (
            lambda n, draw: (word_of(draw), text_of(draw, "J45"), f"DE{n * 7919}"),
            "name,remark,account",
        ),
    ],
)
def test_the_second_line_names_other_columns_and_doubts(tmp_path, make, names):
    check_message(inspect(written(tmp_path, make, names)).lines()[1])


def test_the_first_line_names_the_targets_that_a_recipe_predicts(tmp_path):
    inspection = inspect(written(tmp_path, short_questions, "Frage,Kategorie"))
    assert inspection.lines("values", "number")[0].endswith("; numbers, recipe values")
    assert inspection.lines("labels", "label")[0].endswith(" rows), recipe labels")
    names = "SKU,Product title,URL,Stock,Price (EUR),Last changed"
    inspection = inspect(written(tmp_path, shop_without_descriptions, names))
    assert inspection.lines("labels", "label")[0].endswith("; labels, recipe labels")
