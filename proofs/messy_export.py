"""A messy export, as a spreadsheet program set to German writes it: the file of the tutorial on messy spreadsheets.

It is in cp1252, with semicolons and CR LF, has rows that are empty or have no label, misspelt labels, and 88% of one
label. Texts are made from templates, so a model does better on them than on mail that people wrote. The same arguments
give the same bytes.
"""

from __future__ import annotations

import argparse
import csv
import random
from pathlib import Path

HEADER = ("Nr", "Nachricht", "Thema", "Code")
SHARES = {"Karte": 0.88, "Überweisung": 0.05, "Kredit": 0.03, "Konto": 0.025, "Betrug": 0.015}
"""Each topic with its share of the rows that have one."""
WRONG = {"Karte": ("Kate", "karte", "Katre"), "Überweisung": ("Ueberweisung",), "Kredit": ("Kredti",)}
"""How topics are misspelt."""
MISSPELT, EMPTY, UNLABELLED = 0.004, 0.001, 0.0007
"""Shares of the rows; at least two rows each."""

OPENINGS = ("Guten Tag,", "Hallo,", "Sehr geehrte Damen und Herren,", "Grüezi,", "Moin,", "Liebes Team,", "")
ASIDES = (
    "Kundennummer {number}.",
    "Vorgang {number}.",
    "Das war am {day}.{month}.",
    "Seit dem {day}.{month}. ist das so.",
    "",
)
CLOSINGS = (
    "Bitte um Rückruf.",
    "Mit freundlichen Grüßen, {signed}",
    "Danke für die schnelle Hilfe! {signed}",
    "Was soll ich tun?",
    "Ich warte seit {days} Tagen auf eine Antwort.",
    "Vielen Dank; bitte antworten Sie schriftlich.",
    "",
)
CORES = {
    "Karte": (
        "mein Plastikgeld wird am Automaten in {city} nicht mehr angenommen",
        "ich habe die PIN meiner Girocard vergessen",
        "die neue Kreditkarte ist nach {days} Tagen immer noch nicht angekommen",
        "im Laden in {city} ging kontaktlos bezahlen über {amount} Euro nicht",
        "der Automat in {city} hat meine Girocard eingezogen",
        "wie hoch ist das Limit der Kreditkarte? {amount} Euro waren zu viel",
        "ich brauche eine Zweitkarte für meine Frau {name}",
        "auf der Girocard ist der Name {name} falsch geschrieben",
        "bitte sperren Sie die Girocard von {name}, sie liegt noch in {city}",
        "der Chip ist zerkratzt, an der Kasse in {city} muss ich jedes Mal bar zahlen",
    ),
    "Überweisung": (
        "ich habe {amount} Euro an {name} geschickt, angekommen ist nichts",
        "die {amount} Euro von {name} sind seit {days} Tagen unterwegs",
        "die IBAN war falsch, bitte holen Sie {amount} Euro zurück",
        "der Dauerauftrag an {name} wurde doppelt ausgeführt",
        "wie lange braucht Geld von {city} nach Oslo? Es geht um {amount} Euro",
    ),
    "Kredit": (
        "ich möchte {amount} Euro leihen und in Raten zurückzahlen",
        "der Zins für mein Darlehen über {amount} Euro ist mir zu hoch",
        "kann ich die Rate von {amount} Euro im Sommer aussetzen",
        "wir bauen in {city} ein Haus und brauchen eine Finanzierung",
        "ich will das Darlehen vorzeitig ablösen, offen sind {amount} Euro",
    ),
    "Konto": (
        "mein Login funktioniert seit {days} Tagen nicht",
        "ich ziehe nach {city} um, bitte ändern Sie meine Adresse",
        "ich heiße jetzt {name}, was brauchen Sie für die Änderung",
        "bitte schicken Sie mir den Auszug vom letzten Monat noch einmal",
        "ich möchte kündigen, den Rest von {amount} Euro bitte auszahlen",
    ),
    "Betrug": (
        "jemand hat in {city} {amount} Euro abgebucht, ich war das nicht",
        "eine SMS von {name} fragt nach meiner TAN, ist die echt",
        "ich kenne den Händler aus {city} nicht, der {amount} Euro verlangt",
        "am Telefon wollte ein {name} mein Passwort wissen",
        "auf der Abrechnung der Kreditkarte stehen {amount} Euro aus {city}, die ich nie ausgegeben habe",
    ),
}
CITIES = ("Köln", "Zürich", "München", "Linz", "Görlitz", "Basel", "Jena", "Lübeck", "Graz", "Fürth", "Bern", "Ulm")
NAMES = ("Jürgen Groß", "Anna Weiß", "M. Özdemir", "Frau Schäfer", "Peter Köhler", "Li Wang", "Zoë Kraus", "T. Nuñez")


def message(rng: random.Random, topic: str) -> str:
    """A text about a topic."""
    core = rng.choice(CORES[topic]) + rng.choice((".", "!", "..."))
    parts = [rng.choice(OPENINGS), core, rng.choice(ASIDES), rng.choice(CLOSINGS)]
    values = {
        "city": rng.choice(CITIES),
        "name": rng.choice(NAMES),
        "signed": rng.choice(NAMES),
        "amount": f"{rng.randrange(5, 9000)},{rng.randrange(100):02}",
        "number": rng.randrange(10**5, 10**6),
        "days": rng.randrange(2, 40),
        "day": rng.randrange(1, 29),
        "month": rng.randrange(1, 13),
    }
    return " ".join(part for part in parts if part).format(**values)


def rows(count: int, seed: int = 0) -> list[tuple[str, str, str, str]]:
    """The rows of the export, in a random order; the number of a row is as in the list that was exported."""
    rng = random.Random(seed)
    topics = [topic for topic, share in SHARES.items() for _ in range(max(1, round(share * count)))]
    topics = topics[: count - 1] + topics[-1:]
    rng.shuffle(topics)
    cells = [[message(rng, topic), topic] for topic in topics]
    wrong = [place for place, topic in enumerate(topics) if topic in WRONG]
    spelt = sorted(dict.fromkeys(WRONG))
    for number in range(max(2 * len(spelt), round(MISSPELT * count))):
        topic = spelt[number % len(spelt)]
        place = rng.choice([place for place in wrong if cells[place][1] == topic])
        cells[place][1] = rng.choice(WRONG[topic])
    places = rng.sample(range(len(cells)), max(2, round(EMPTY * count)) + max(2, round(UNLABELLED * count)))
    empty = set(places[: max(2, round(EMPTY * count))])
    for place in places:
        cells[place][1] = ""
    numbered = enumerate(cells, 1)
    return [
        ("", "", "", "") if number - 1 in empty else (str(number), text, topic, f"{rng.randrange(10**6):06}")
        for number, (text, topic) in numbered
    ]


def write(file: Path, count: int) -> None:
    """Write the export."""
    with file.open("w", encoding="cp1252", newline="") as out:
        writer = csv.writer(out, delimiter=";")
        writer.writerow(HEADER)
        writer.writerows(rows(count))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=20_000)
    given = parser.parse_args()
    write(given.file, given.rows)
