"""Japanese models: their folders open, keep what they were told, and say what to install."""

import sys

import pytest

from tiny import save_japanese, tiny_japanese
from warmstart.errors import MissingExtraError, ModelError
from warmstart.models.loading import load_tokenizer
from warmstart.text.alignment import tokenize_with_offsets
from warmstart.text.windows import Frame

TEXT = "㍿東京大学へ行く ﾊﾞ"


@pytest.fixture(params=["mecab", "sudachi"])
def folder(request, tmp_path):
    """A tiny Japanese encoder, saved."""
    return save_japanese(tmp_path / "model", request.param)


def test_a_saved_folder_opens_and_goes_round(folder, tmp_path):
    first = load_tokenizer(str(folder))
    first.save_pretrained(tmp_path / "again")
    (tmp_path / "again" / "config.json").write_bytes((folder / "config.json").read_bytes())
    second = load_tokenizer(str(tmp_path / "again"))
    assert tokenize_with_offsets(first, [TEXT]) == tokenize_with_offsets(second, [TEXT])
    assert first(TEXT, TEXT) == second(TEXT, TEXT)


def test_a_pair_has_two_segments(folder):
    frame = Frame.of(load_tokenizer(str(folder)), pair=True)
    assert (len(frame.before), len(frame.between), len(frame.after)) == (1, 1, 1)
    assert frame.types == (0, 0, 0, 1, 1)


def test_a_missing_package_is_named_with_what_to_type(folder, monkeypatch):
    for package in ("fugashi", "sudachipy"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'warmstart\[ja\]'"):
        load_tokenizer(str(folder))


def test_usual_options_of_the_engines_are_taken_and_kept(tmp_path):
    for number, (words, options) in enumerate(
        [("mecab", {"mecab_dic": "unidic_lite"}), ("sudachi", {"sudachi_split_mode": "C", "trim_whitespace": True})]
    ):
        path = tmp_path / str(number)
        saved = tiny_japanese(path, words, **{f"{words}_kwargs": options})
        saved.save_pretrained(path)
        assert getattr(load_tokenizer(str(path)), f"{words}_kwargs") == options


def test_options_that_name_files_are_refused(tmp_path):
    tiny_japanese(tmp_path).save_pretrained(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(path.read_text().replace('"mecab_kwargs": null', '"mecab_kwargs": {"mecab_option": "-d /tmp"}'))
    with pytest.raises(ModelError, match=r"mecab_kwargs\.mecab_option"):
        load_tokenizer(str(tmp_path))
