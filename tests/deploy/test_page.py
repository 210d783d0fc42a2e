"""The page of a server in a real browser: it asks, shows answers as their task wants, and takes text as text."""

import asyncio
import importlib.util
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from warmstart import tasks
from warmstart.report.pdf import find_browser
from warmstart.text.windows import Window

pytest.importorskip("uvicorn")
sys.path.insert(0, str(Path(__file__).parents[2] / "proofs"))

pytestmark = [
    pytest.mark.skipif(find_browser() is None, reason="no Chromium in the PATH"),
    pytest.mark.skipif(importlib.util.find_spec("playwright") is None, reason="no playwright: the extra browser"),
]

TOKEN = "a-token-of-some-length"
HOSTILE = '<img src="x" onerror="document.title=1"> 😀 Alice in Paris'
START = len('<img src="x" onerror="document.title=1"> 😀 ')
LABELS = ["neg", "pos", "<b>odd</b>"]
ANSWERS = {
    "classify": {"label": "pos", "probability": 0.7, "probabilities": dict(zip(LABELS, (0.2, 0.7, 0.1), strict=True))},
    "tag": {"entities": [{"start": START, "end": START + 5, "label": "PER", "text": "Alice", "score": 0.9}]},
    "span": {"answer": "Alice", "start": START, "end": START + 5, "score": 0.9, "no_answer_score": -3.0, "best": []},
    "score": {"score": 3.25},
    "choose": {"label": 1, "ending": "second", "probability": 0.6, "probabilities": [0.4, 0.6]},
}


class Canned:
    """Answers that are known before."""

    async def answer(self, model, rows):
        from warmstart.deploy.serve.backend import BackendReply

        if model.name == "rank":
            return BackendReply([{"score": float(len(row["document"]))} for row in rows], [len(rows)])
        return BackendReply([ANSWERS[model.name] for _ in rows], [len(rows)])


def served(name):
    from warmstart.deploy.serve.served_models import ServedModel

    config = SimpleNamespace(id2label=dict(enumerate(LABELS if name == "classify" else ["O", "B-PER", "I-PER"])))
    config.num_labels, config.problem_type = len(config.id2label), "single_label_classification"
    task = tasks.find(name).from_config(tasks.options_of(name, {}), False, config)
    return ServedModel(name, Path(), f"{name:0<64}", task, Window(64))


@pytest.fixture(scope="module")
def url():
    import uvicorn

    from warmstart.deploy.serve.app import ServingApp, ServingSettings

    models = {name: served(name) for name in (*ANSWERS, "rank")}
    app = ServingApp(models, Canned(), ServingSettings(token=TOKEN), lambda entry: None)
    app.ready = set(models)
    server = uvicorn.Server(uvicorn.Config(app, port=0, lifespan="off", log_level="critical"))
    thread = threading.Thread(target=asyncio.run, args=(server.serve(),), daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join()


@pytest.fixture(scope="module")
def browser():
    from browser import chromium

    with chromium() as one:
        yield one


@pytest.fixture
def tab(browser, url):
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark", bypass_csp=False)
    page = context.new_page()
    page.said = []
    page.on("console", lambda one: page.said.append(one.text))
    page.on("pageerror", lambda one: page.said.append(str(one)))
    page.asked = []
    page.on("request", lambda one: page.asked.append(one.url))
    page.goto(url)
    page.fill("#token", TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector("#send", state="visible")
    yield page
    context.close()


def answer(tab, model, **fields):
    tab.select_option("#model", model)
    for name, text in fields.items():
        tab.fill(f"#f-{name}", text)
    tab.click("#send")
    tab.wait_for_selector("#result h2")
    return tab.inner_text("#result")


def test_answers_are_shown_as_their_task_wants(tab, url):
    found = answer(tab, "classify", text=HOSTILE)
    assert found.index("pos") < found.index("70.0 %") < found.index("<b>odd</b>")
    assert tab.evaluate("[...document.querySelectorAll('td.bar div')].map(one => one.style.width)")[0] == "70%"
    answer(tab, "tag", text=HOSTILE)
    assert tab.inner_text("mark") == "Alice PER" or tab.inner_text("mark") == "AlicePER"
    found = answer(tab, "span", question="Who?", context=HOSTILE)
    assert tab.inner_text("mark") == "Alice"
    assert "Alice" in found
    assert "3.2500" in answer(tab, "score", text="good")
    assert answer(tab, "choose", text="a", endings="first\nsecond").index("second") < 20
    found = answer(tab, "rank", query="a", document="one\nthirteen\nfour")
    assert found.index("thirteen") < found.index("four") < found.index("one")
    assert tab.title() == "Try a model · warmstart"  # what was typed is text, and ran nowhere
    assert tab.evaluate("document.querySelectorAll('#result img, #result b').length") == 0
    assert all(one.startswith(url) or one == "data:," for one in tab.asked)
    told = [one for one in tab.said if "401" not in one]
    assert told == []


def test_errors_json_and_curl_are_shown(tab, url):
    tab.select_option("#model", "classify")
    tab.fill("#f-text", "   ")
    tab.click("#send")
    tab.wait_for_selector("#wrong p")
    assert "texts[0]" in tab.inner_text("#wrong")
    answer(tab, "classify", text="it's good")
    tab.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert "probabilities" in tab.inner_text("#json")
    line = tab.inner_text("#curl")
    assert line.startswith(f"curl '{url}v1/models/classify/predict'")
    assert "it'\\''s good" in line
    assert TOKEN not in tab.content()


def test_nobody_is_shut_out(browser, url):
    from browser import axe_script

    for width, theme in ((1280, "light"), (390, "dark")):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme, bypass_csp=True)
        page = context.new_page()
        page.goto(url)
        page.fill("#token", TOKEN)
        page.keyboard.press("Enter")
        for model in ("classify", "tag", "span"):
            page.wait_for_selector("#send", state="visible")
            answer(page, model, **({"context": HOSTILE} if model == "span" else {"text": HOSTILE}))
            page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
            if axe := axe_script():
                page.evaluate(axe)
                found = page.evaluate("axe.run()")["violations"]
                assert [(one["id"], one["nodes"][0]["html"][:100]) for one in found] == []
        context.close()


def test_a_wrong_token_is_told(browser, url):
    page = browser.new_page()
    page.goto(url)
    page.fill("#token", "another token")
    page.keyboard.press("Enter")
    page.wait_for_selector("#wrong p")
    assert "token" in page.inner_text("#wrong")
    assert page.is_hidden("#ask")
    page.close()
