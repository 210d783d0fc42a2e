"""Files in an object store, which a small server plays here; and credentials, which are shown to nobody."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from warmstart.cli import main
from warmstart.deploy.label.locations import Folder, split
from warmstart.deploy.label.object_stores import folder_of, open_uri
from warmstart.errors import DataError, Location, RecipeError, RunError, WarmstartError, redact
from warmstart.training.settings import check_trainer_options

SECRET = "MARKEDsecret0123456789"
FILES = {"/corpus/in/a b.csv": b"text\ngood\n"}


class Store(BaseHTTPRequestHandler):
    """Objects of S3, as far as reading one needs them."""

    protocol_version = "HTTP/1.1"
    asked: list = []

    def do_HEAD(self):
        from urllib.parse import unquote

        self.asked.append((self.path, self.headers.get("authorization", "")))
        data = FILES.get(unquote(self.path))
        self.send_response(200 if data else 404)
        self.send_header("content-length", str(len(data or b"")))
        self.send_header("etag", '"1"')
        self.end_headers()
        return data or b""

    def do_GET(self):
        self.wfile.write(self.do_HEAD())

    def log_message(self, *_):
        pass


@pytest.fixture
def store():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Store)
    Store.asked.clear()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"endpoint_override=127.0.0.1:{server.server_port}&scheme=http&region=us-east-1"
    server.shutdown()
    server.server_close()


def test_a_single_file_keeps_its_endpoint(store):
    folder, names = split(f"s3://KEY:{SECRET}@corpus/in/a%20b.csv?{store}")
    assert names == ["a b.csv"]
    assert folder == Folder(f"s3://KEY:{SECRET}@corpus/in?{store}")
    assert folder.read("a b.csv") == b"text\ngood\n"


def test_public_data_is_read_without_credentials(store, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    system, path = open_uri(f"s3://corpus/in/a%20b.csv?anonymous=true&{store}")
    with system.open_input_file(path) as file:
        assert file.read() == b"text\ngood\n"
    assert Store.asked
    assert not any(sent for _, sent in Store.asked)


def test_other_stores_are_opened_with_arrows_own_options():
    for uri, path in (
        ("gs://anonymous@bucket/in?endpoint_override=127.0.0.1:9&scheme=http", "bucket/in"),
        ("abfs://box@account.dfs.core.windows.net/in?credential_kind=anonymous", "box/in"),
    ):
        assert open_uri(uri)[1] == path


def test_the_folder_of_a_file():
    assert folder_of("s3://a/b/c.csv?x=1/2") == "s3://a/b?x=1/2"
    assert folder_of("/data/what?.csv") == "/data"
    assert folder_of("c.csv") == ""


@pytest.mark.parametrize(
    "text",
    [
        f"s3://KEY:{SECRET}@bucket/in: no such bucket",
        f"'s3://KEY:{SECRET}/with/slashes@bucket/in'",
        f"/home/me/s3:/KEY:{SECRET}@bucket/in",
        f"https://{SECRET}@example.org/x",
        f"abfs://box@account/in?sig={SECRET}&x=1",
        f"s3://b/in?secret_key={SECRET}",
        f"https://b/in?X-Amz-Signature={SECRET}",
        f"Authorization: Bearer {SECRET}",
    ],
)
def test_credentials_are_redacted(text):
    error = DataError("no such file", "no-file", location=Location(text, 3))
    assert SECRET not in f"{error} {error.location} {error.path}"
    for error in (RunError(text), WarmstartError(text), DataError(text, "no-file")):
        assert SECRET not in str(error)
        assert SECRET not in repr(error)
    assert "***" in redact(text)


def test_secrets_of_the_environment_are_redacted(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert redact(f"the request signed by {SECRET} was refused") == "the request signed by *** was refused"


@pytest.mark.parametrize("text", ["gs://anonymous@bucket/a", "abfs://box@account/a", "s3://bucket/a?region=eu", "a@b"])
def test_what_is_no_secret_is_shown(text):
    assert redact(text) == text


def test_an_error_of_a_uri_shows_no_secret():
    with pytest.raises(RecipeError) as caught:
        split(f"s3://KEY:{SECRET}@bucket/in?wrong=1")
    assert SECRET not in str(caught.value)
    assert "bucket/in" in str(caught.value)


def test_a_traceback_shows_no_secret(monkeypatch, capsys):
    def crash():
        raise ValueError(f"cannot open s3://KEY:{SECRET}@bucket/in")

    monkeypatch.setattr(main, "app", crash)
    monkeypatch.setenv("WARMSTART_TRACEBACK", "1")
    with pytest.raises(SystemExit) as left:
        main.main()
    told = capsys.readouterr().err
    assert left.value.code == 70
    assert "ValueError: cannot open s3://***@bucket/in" in told
    assert "in crash" in told
    assert SECRET not in told


def test_a_token_is_no_option_of_a_recipe():
    with pytest.raises(RecipeError, match="set HF_TOKEN in the environment"):
        check_trainer_options({"hub_token": SECRET})


@pytest.mark.parametrize("verb", ["export", "fit", "predict", "report"])
def test_a_uri_is_no_place_for_what_is_written_here(verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    left = CliRunner().invoke(main.app, [verb, "run", "--out", f"s3://KEY:{SECRET}@bucket/out"])
    assert isinstance(left.exception, RecipeError)
    assert "only `predict --ray` writes to" in str(left.exception)
    assert not list(tmp_path.iterdir())
