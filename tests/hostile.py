"""Hostile model folders, runs and recipes: each a benign one with one thing changed, and what its refusal must name.

`CASES` is what `proofs/hostile.py` runs under strace and what `test_untrusted.py` runs without. A payload that ran
would make the file `ran` beside the folder; a path that was followed would open the file `secret` there.
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import socket
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Kind = Literal["model", "recurrent", "run", "recipe", "data"]
CODE = "import os, pathlib\npathlib.Path({ran!r}).write_text('ran')\nos.system('touch ' + {ran!r})\n"


@dataclass(frozen=True)
class Case:
    """One hostile folder or file."""

    name: str
    kind: Kind
    make: Callable[[Path], None]
    """Changes a benign folder in place."""
    names: tuple[str, ...]
    """What the refusal must name: the file and the key. Empty where the folder must open, with nothing followed."""


CASES: list[Case] = []


def case(name: str, *names: str, kind: Kind = "model") -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    def add(make: Callable[[Path], None]) -> Callable[[Path], None]:
        CASES.append(Case(name, kind, make, names))
        return make

    return add


def ran(folder: Path) -> Path:
    """The file that a payload would make."""
    return folder.parent / "ran"


def secret(folder: Path) -> Path:
    """A file outside the folder, that nothing may open."""
    return folder.parent / "secret"


def change(folder: Path, file: str, edit: Callable[[dict[str, Any]], Any]) -> None:
    path = folder / file
    values = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    edit(values)
    path.write_text(json.dumps(values), encoding="utf-8")


def keys(name: str, file: str, where: str, values: Any, *also: str, kind: Kind = "model") -> None:
    """A case that sets keys of a JSON file; `values` may be a function of the folder."""

    def make(folder: Path) -> None:
        change(folder, file, lambda old: old.update(values(folder) if callable(values) else values))

    CASES.append(Case(name, kind, make, (file, where, *also) if where else ()))


class Payload:
    """What a pickle runs when it is opened."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


def write_pickle(path: Path, folder: Path) -> None:
    path.write_bytes(pickle.dumps(Payload(str(ran(folder)))))


# --- code ---------------------------------------------------------------------------------------------------------


def _code(folder: Path, auto: str, value: Any) -> dict[str, Any]:
    (folder / "evil.py").write_text(CODE.format(ran=str(ran(folder))), encoding="utf-8")
    return {"auto_map": {auto: value}}


CONFIG, TOKENIZER, WORDS = "config.json", "tokenizer_config.json", "tokenizer.json"
keys("auto_map of the config", CONFIG, "auto_map", lambda f: _code(f, "AutoConfig", "evil.Config"))
keys("auto_map of the model", CONFIG, "auto_map", lambda f: _code(f, "AutoModel", "evil.Model"))
keys(
    "auto_map of the head",
    CONFIG,
    "auto_map",
    lambda f: _code(f, "AutoModelForSequenceClassification", "other/repo--evil.Model"),
)
keys("auto_map of the tokenizer", TOKENIZER, "auto_map", lambda f: _code(f, "AutoTokenizer", [None, "evil.Tok"]))
keys("auto_map as a list", TOKENIZER, "auto_map", {"auto_map": ["evil.Tok", None]})
keys(
    "auto_map deep in a sub-config",
    CONFIG,
    "encoder.inner[0].auto_map",
    {"encoder": {"inner": [{"auto_map": {"AutoConfig": "evil.C"}}]}},
)
keys("auto_map of generation", "generation_config.json", "auto_map", {"auto_map": {"AutoConfig": "evil.C"}})
keys("auto_map of the processor", "processor_config.json", "auto_map", {"auto_map": {"AutoProcessor": "evil.P"}})
keys(
    "auto_map of the preprocessor",
    "preprocessor_config.json",
    "auto_map",
    {"auto_map": {"AutoFeatureExtractor": "evil.F"}},
)
keys("custom pipelines", CONFIG, "custom_pipelines", {"custom_pipelines": {"t": {"impl": "evil.Pipe"}}})
keys("trust_remote_code in the config", CONFIG, "trust_remote_code", {"trust_remote_code": True})
keys("custom generation", "generation_config.json", "custom_generate", {"custom_generate": "evil/repo"})
keys("kernels of the Hub as attention", CONFIG, "_attn_implementation", {"_attn_implementation": "kernels-community/x"})
keys("attention by another name", CONFIG, "attn_implementation", {"attn_implementation": "evil/repo:kernel"})
keys("attention of the inside", CONFIG, "_attn_implementation_internal", {"_attn_implementation_internal": "a/b"})
keys("kernels asked for", CONFIG, "use_kernels", {"use_kernels": True})
keys("quantization", CONFIG, "quantization_config", {"quantization_config": {"quant_method": "gptq", "bits": 4}})
keys("fusion", CONFIG, "fusion_config", {"fusion_config": {"x": {"path": "evil.module"}}})
keys("a private setting", CONFIG, "_auto_class", {"_auto_class": "AutoModel"})
keys("an unknown architecture", CONFIG, "model_type", {"model_type": "evilbert"})
keys("an architecture that is no text", CONFIG, "model_type", {"model_type": "timm_wrapper"})
keys("an architecture of several models", CONFIG, "several", {"model_type": "t5gemma"})
keys("an architecture that is no name", CONFIG, "model_type", {"model_type": ["bert"]})
keys("a class that is no model", CONFIG, "", {"architectures": ["pipeline", "Trainer", "AutoTokenizer"]})
keys("architectures that are no list", CONFIG, "architectures", {"architectures": {"a": 1}})
keys("a tokenizer class of nowhere", TOKENIZER, "tokenizer_class", {"tokenizer_class": "os.system"})
keys("a tokenizer class that is no tokenizer", TOKENIZER, "tokenizer_class", {"tokenizer_class": "AutoModel"})
keys("a tokenizer class in the config", CONFIG, "tokenizer_class", {"tokenizer_class": "AutoModel"})
keys("a tokenizer class of several", TOKENIZER, "tokenizer_class", {"tokenizer_class": "RagTokenizer"})
keys("a file for Sudachi", TOKENIZER, "sudachi_config_path", {"sudachi_kwargs": {"sudachi_config_path": "/etc/passwd"}})
keys("options of Sudachi as a list", TOKENIZER, "sudachi_kwargs", {"sudachi_kwargs": ["/etc/passwd"]})
keys("MeCab's own dictionary", TOKENIZER, "mecab_dic", {"mecab_kwargs": {"mecab_dic": None}})
keys("a program that finds words", TOKENIZER, "word_tokenizer_type", {"word_tokenizer_type": "jumanpp"})
keys("options of mecab", TOKENIZER, "mecab_kwargs", {"mecab_kwargs": {"mecab_option": "-r /etc/passwd"}})


def _pooled(name: str, where: str, edit: Callable[[dict[str, Any]], Any], file: str = CONFIG) -> None:
    """A case that edits the config of a pooled model, whose encoder's config stands under `encoder`."""

    @case(name, file, where)
    def _(folder: Path) -> None:
        inner = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        config = {"model_type": "warmstart-pooled", "encoder": inner, "layers": "last", "pooling": "mean"}
        edit(config)
        (folder / CONFIG).write_text(json.dumps(config), encoding="utf-8")


_INNER_CODE = {"auto_map": {"AutoConfig": "evil.Config"}}
_pooled("auto_map inside a pooled model", "encoder.auto_map", lambda old: old["encoder"].update(_INNER_CODE))
_pooled("auto_map of a pooled model", "auto_map", lambda old: old.update(_INNER_CODE))
_pooled(
    "kernels inside a pooled model", "attn_implementation", lambda old: old["encoder"].update(attn_implementation="a/b")
)
_pooled("an unknown key of a pooled model", "'code'", lambda old: old.update(code="evil"))
_pooled("a private setting inside a pooled model", "_auto_class", lambda old: old["encoder"].update(_auto_class="x"))
_pooled("a path inside a pooled model", "notes", lambda old: old["encoder"].update(notes="../secret"))
_pooled("a vast vocabulary inside a pooled model", "vocab_size", lambda old: old["encoder"].update(vocab_size=10**12))
_pooled("vast slices of a pooled model", "slice_chunk_size", lambda old: old.update(slice_chunk_size=10**12))
_pooled("vast layers of a pooled model", "layers", lambda old: old.update(layers="concat-99999999"))
_pooled("layers beyond the encoder", "blocks", lambda old: old.update(layers="concat-9999"), "layers")
_pooled("layers that are code", "layers", lambda old: old.update(layers=["os.system"]))
_pooled("a pooling of no known name", "pooling", lambda old: old.update(pooling="os.system"))
_pooled("a dropout that is no share", "dropout", lambda old: old.update(dropout=10**30))
_pooled("labels of a pooled model that are no names", "id2label", lambda old: old.update(id2label={"0": {"a": 1}}))
_pooled("an encoder that is a path", "encoder", lambda old: old.update(encoder="../secret"))
_pooled("a pooled model without an encoder", "encoder", lambda old: old.pop("encoder"))
_pooled("a pooled model in itself", "model_type", lambda old: old.update(encoder=dict(old)))
_pooled("an unknown encoder in a pooled model", "model_type", lambda old: old["encoder"].update(model_type="evil"))


@case("a script, unasked for")
def _(folder: Path) -> None:
    for name in ("modeling_bert.py", "configuration.py", "__init__.py", "sitecustomize.py"):
        (folder / name).write_text(CODE.format(ran=str(ran(folder))), encoding="utf-8")


@case("a chat template")
def _(folder: Path) -> None:
    template = "{{ cycler.__init__.__globals__.os.system('touch " + str(ran(folder)) + "') }}"
    change(folder, TOKENIZER, lambda old: old.update(chat_template=template))
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")


@case("a pickle beside safetensors, unread")
def _(folder: Path) -> None:
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt", "model.pkl"):
        write_pickle(folder / name, folder)


for _name in ("pytorch_model.bin", "model.pt", "model.pth", "model.pkl", "model.ckpt", "tf_model.h5", "model.gguf"):

    def _instead(folder: Path, name: str = _name) -> None:
        (folder / "model.safetensors").unlink()
        write_pickle(folder / name, folder)

    CASES.append(Case(f"{_name} as the weights", "model", _instead, (_name, "model.safetensors")))


@case("an adapter to another model", "adapter_config.json", "adapter")
def _(folder: Path) -> None:
    change(folder, "adapter_config.json", lambda old: old.update(base_model_name_or_path=str(secret(folder))))


# --- paths --------------------------------------------------------------------------------------------------------

keys("weights elsewhere", CONFIG, "transformers_weights", lambda f: {"transformers_weights": f"../{secret(f).name}"})
keys("a config elsewhere", CONFIG, "configuration_files", {"configuration_files": ["../../config.9.9.9.json"]})
keys("a path in an unknown key", CONFIG, "notes", lambda f: {"notes": str(secret(f))})
keys("an address in an unknown key", CONFIG, "rope_scaling.from", {"rope_scaling": {"from": "http://127.0.0.1/x"}})
keys("a backbone", CONFIG, "backbone", {"backbone": "evil/repo", "use_timm_backbone": True})
keys("where the model came from", CONFIG, "", lambda f: {"_name_or_path": str(secret(f))})
keys("a vocabulary elsewhere", TOKENIZER, "vocab_file", lambda f: {"vocab_file": str(secret(f))})
keys("a tokenizer elsewhere", TOKENIZER, "tokenizer_file", lambda f: {"tokenizer_file": "../secret"})
keys("versions of a tokenizer", TOKENIZER, "fast_tokenizer_files", {"fast_tokenizer_files": ["../tokenizer.9.json"]})
keys("a gguf file", TOKENIZER, "gguf_file", {"gguf_file": "../secret"})
keys(
    "where a tokens file once was",
    TOKENIZER,
    "",
    lambda f: {"special_tokens_map_file": str(secret(f)), "name_or_path": str(secret(f))},
)


def _link(folder: Path, name: str, to: str) -> None:
    path = folder / name
    if path.exists():
        path.unlink()
    path.symlink_to(to)


for _name in ("config.json", "model.safetensors", "tokenizer.json", "vocab.txt", "extra"):
    CASES.append(Case(f"{_name} is a link", "model", lambda f, n=_name: _link(f, n, str(secret(f))), (_name, "link")))
CASES.append(Case("a folder is a link", "model", lambda f: _link(f, "1_Pooling", str(f.parent)), ("1_Pooling", "link")))
CASES.append(Case("a link in a circle", "model", lambda f: _link(f, "loop", "loop"), ("loop", "link")))


def _pipe(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)


for _name in ("config.json", "tokenizer.json", "generation_config.json"):
    CASES.append(Case(f"{_name} is a pipe", "model", lambda f, n=_name: _pipe(f, n), (_name, "pipe")))


@case("a socket", "server", "socket")
def _(folder: Path) -> None:
    here = Path.cwd()
    os.chdir(folder)  # a socket's path must be short
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("server")
    finally:
        os.chdir(here)


def _index(name: str, to: str, *names: str) -> None:
    @case(name, "model.safetensors.index.json", "weight_map", *names)
    def _(folder: Path) -> None:
        (folder / "model.safetensors").rename(folder / "part.safetensors")
        index = {"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": to}}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


_index("an index that leads out", "../secret")
_index("an index from the root", "/etc/passwd")
_index("an index of a pickle", "pytorch_model.bin")
_index("an index of what is not there", "none.safetensors", "none.safetensors")

# --- sizes --------------------------------------------------------------------------------------------------------

keys("a vast vocabulary", CONFIG, "vocab_size", {"vocab_size": 10**12})
keys("a vast width", CONFIG, "hidden_size", {"hidden_size": 2**40})
keys("a vast depth", CONFIG, "num_hidden_layers", {"num_hidden_layers": 10**6})
keys("vast positions", CONFIG, "max_position_embeddings", {"max_position_embeddings": 10**10})
keys("vast labels", CONFIG, "num_labels", {"num_labels": 10**7})
keys("a model larger than its weights", CONFIG, "numbers", {"vocab_size": 2**24, "hidden_size": 2**12})
keys("a size that is a word", CONFIG, "hidden_size", {"hidden_size": "a lot"})
keys("a size below zero", CONFIG, "type_vocab_size", {"type_vocab_size": -5})
keys("vast padding", WORDS, "padding", {"padding": {"strategy": {"Fixed": 2**40}, "pad_id": 0}})


def _text(name: str, file: str, text: str | Callable[[str], str], *names: str) -> None:
    @case(name, file, *names)
    def _(folder: Path) -> None:
        old = (folder / file).read_text(encoding="utf-8") if (folder / file).exists() else ""
        (folder / file).write_text(text(old) if callable(text) else text, encoding="utf-8")


_text("a config of two megabytes", CONFIG, lambda old: old + " " * (2 << 20), "bytes")
_text("a config nested deep", CONFIG, '{"a":' + "[" * 100_000 + "]" * 100_000 + "}", "deep")
_text("a config nested a little too deep", CONFIG, '{"a":' + "[" * 100 + "]" * 100 + "}", "deep")
_text("a config with a key twice", CONFIG, '{"model_type": "bert", "model_type": "evil"}', "model_type")
_text("a config with NaN", CONFIG, '{"model_type": "bert", "x": NaN}', "NaN")
_text("a config with a number beyond numbers", CONFIG, '{"model_type": "bert", "x": 1e999}', "1e999")
_text("a config that is a list", CONFIG, "[]", "list")
_text("a config that is no JSON", CONFIG, "import os", "JSON")
_text("a tokenizer config that is no JSON", TOKENIZER, "{", "JSON")
_text("a tokenizer that is no JSON", WORDS, "{", "JSON")
_text("a template of two megabytes", "chat_template.jinja", "{{ x }}" * 300_000, "bytes")


@case("a vocabulary of a hundred megabytes", "vocab.txt", "bytes")
def _(folder: Path) -> None:
    with (folder / "vocab.txt").open("wb") as file:
        file.truncate(100 << 20)


# --- tensors ------------------------------------------------------------------------------------------------------


def _tensors(name: str, edit: Callable[[dict[str, Any]], Any] | bytes, *names: str) -> None:
    @case(name, "model.safetensors", *names)
    def _(folder: Path) -> None:
        path = folder / "model.safetensors"
        data = path.read_bytes()
        if isinstance(edit, bytes):
            path.write_bytes(edit)
            return
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + size])
        edit(header)
        text = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + size :])


def _first(header: dict[str, Any]) -> dict[str, Any]:
    return next(about for name, about in header.items() if name != "__metadata__")


_tensors("weights that are empty", b"", "header")
_tensors("a header beyond the file", struct.pack("<Q", 2**62) + b"{}", "header")
_tensors("a header that is no JSON", struct.pack("<Q", 4) + b"\x80\x04\x95.", "header")
_tensors("weights that are a pickle", pickle.dumps(Payload("ran")), "header")
_tensors("a tensor beyond the file", lambda header: _first(header).update(data_offsets=[0, 2**45]), "data_offsets")
_tensors("a tensor before the file", lambda header: _first(header).update(data_offsets=[-8, 8]), "data_offsets")
_tensors("a tensor of no known type", lambda header: _first(header).update(dtype="PICKLE"), "dtype")
_tensors("a tensor larger than its bytes", lambda header: _first(header).update(shape=[2**40, 2**40]), "shape")
_tensors("a tensor too many", lambda header: header.update(x={"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}))
_tensors("notes that are no text", lambda header: header.update(__metadata__={"format": ["pt"]}), "__metadata__")

# --- tokenizers ---------------------------------------------------------------------------------------------------


def _split(pattern: str) -> dict[str, Any]:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split]}}


def _replace(count: int, content: str) -> dict[str, Any]:
    one = {"type": "Replace", "pattern": {"String": "a"}, "content": content}
    return {"normalizer": {"type": "Sequence", "normalizers": [one] * count}}


keys("a pattern that takes for ever", WORDS, "pre_tokenizer.pretokenizers[0].pattern.Regex", _split(r"^(a+)+$"))
keys("a pattern of choices", WORDS, "Regex", _split(r"(?:a|a|aa)*b"))
keys("a pattern that calls itself", WORDS, "Regex", _split(r"(?<x>a\g<x>*b)"))
keys("a pattern without end", WORDS, "Regex", _split("a?" * 5000))
keys("a pattern that breaks the engine", WORDS, "cannot be used", _split(r"(?<=a*"))
_BROKEN = {"type": "Precompiled", "precompiled_charsmap": "BAAAAP////8AAAA="}
_MISSING = {"single": [{"SpecialToken": {"id": "X", "type_id": 0}}], "pair": [], "special_tokens": {}}
keys("a panic while opening", WORDS, "cannot be used", {"normalizer": {**_BROKEN, "precompiled_charsmap": "AAAA"}})
keys("a panic in the normalizer", WORDS, "cannot be used", {"normalizer": _BROKEN})
keys("a panic in the splitter", WORDS, "cannot be used", {"pre_tokenizer": {"type": "FixedLength", "length": 0}})
keys("a panic in the frame", WORDS, "cannot be used", {"post_processor": {"type": "TemplateProcessing", **_MISSING}})
keys("replacements that double", WORDS, "normalizer", _replace(40, "aa"))
keys("a replacement that swells", WORDS, "normalizer", _replace(1, "a" * 100_000))
keys("a prefix without end", WORDS, "prepend", {"normalizer": {"type": "Prepend", "prepend": "a" * 10_000}})
keys("a tokenizer of no known kind", WORDS, "cannot be used", {"model": {"type": "Evil", "vocab": {}}})
keys("special tokens of no known form", TOKENIZER, "cannot be used", {"added_tokens_decoder": {"0": [1]}})

# --- runs ---------------------------------------------------------------------------------------------------------


def _run(name: str, file: str, edit: Callable[[dict[str, Any]], Any], *names: str) -> None:
    """A case that edits a JSON file of a run and, where it is in the model's folder, its manifest to match."""

    @case(name, Path(file).name, *names, kind="run")
    def _(folder: Path) -> None:
        change(folder, file, edit)
        sign(folder / "model")


def sealed(manifest: dict[str, Any]) -> dict[str, Any]:
    """Give a manifest the seal that fits what it says."""
    from warmstart.storage.artifacts import _seal

    manifest.pop("seal", None)
    manifest["seal"] = _seal(manifest)
    return manifest


def sign(folder: Path) -> None:
    """Make a manifest fit its folder again, as an attacker would."""
    from warmstart.storage.artifacts import checksum

    def fit(manifest: dict[str, Any]) -> None:
        for name, about in manifest["files"].items():
            if about != {} and (folder / name).is_file():
                about.update(checksum(folder / name))
        sealed(manifest)

    if isinstance(json.loads((folder / "manifest.json").read_text(encoding="utf-8")).get("files"), dict):
        change(folder, "manifest.json", fit)


SAVED, MANIFEST = "model/warmstart.json", "model/manifest.json"
_run("a manifest that leads out", MANIFEST, lambda old: old["files"].update({"../../secret": {}}), "../../secret")
_run("a manifest from the root", MANIFEST, lambda old: old["files"].update({"/etc/passwd": {}}), "/etc/passwd")
_run("a manifest without files", MANIFEST, lambda old: old.update(files=["a"]), "files")
_run("a task of no known name", SAVED, lambda old: old.update(task="os"), "task")
_run("a task that is a path", SAVED, lambda old: old.update(task="../../../evil"), "task")
_run("a task that is no name", SAVED, lambda old: old.update(task={"a": 1}), "task")
_run("options that are no options", SAVED, lambda old: old.update(options=[1, 2]), "options")
_run("an unknown option", SAVED, lambda old: old["options"].update(code="evil"), "code")
_run("a pair that is no choice", SAVED, lambda old: old.update(pair="yes"), "pair")
_run("a vast window", SAVED, lambda old: old["window"].update(max_tokens=10**15), "window.max_tokens")
_run("a window of other keys", SAVED, lambda old: old["window"].update(run="evil"), "window")
_run("a window wider than the encoder", SAVED, lambda old: old["window"].update(max_tokens=4000), "window.max_tokens")
_run("a window of no room", SAVED, lambda old: old["window"].update(max_tokens=2), "window.max_tokens")
_run("a window of no known kind", SAVED, lambda old: old["window"].update(method="../evil"), "window.method")
_run("a window kept by a list", SAVED, lambda old: old["window"].update(method=["head"]), "window.method")
_run("slices for a stock head", SAVED, lambda old: old["window"].update(method="slices"), "window.method")
_run("an overlap below nothing", SAVED, lambda old: old["window"].update(method="slices", overlap=-9), "window.overlap")
_run(
    "a share of a slice", SAVED, lambda old: old["window"].update(method="slices", max_slices=0.5), "window.max_slices"
)
_run(
    "a head that is true",
    SAVED,
    lambda old: old["window"].update(method="head+tail", head_tokens=True),
    "window.head_tokens",
)
_run("a head without a tail", SAVED, lambda old: old["window"].update(head_tokens=5), "window.head_tokens")
_run("another format", SAVED, lambda old: old.update(format={"a": []}), "format")
_run("labels without order", "model/config.json", lambda old: old.update(id2label={"7": "a", "9": "b"}), "id2label")
_run("auto_map in a run", "model/config.json", lambda old: old.update(auto_map={"AutoConfig": "evil.C"}), "auto_map")


@case("the model of a run is a link", "model", "link", kind="run")
def _(folder: Path) -> None:
    (folder / "model").rename(folder.parent / "elsewhere")
    (folder / "model").symlink_to("../elsewhere")


@case("the metrics of a run are a link", "metrics.json", "link", kind="run")
def _(folder: Path) -> None:
    _link(folder, "metrics.json", str(secret(folder)))


@case("the recipe of a run is a link", "recipe.yaml", "link", kind="run")
def _(folder: Path) -> None:
    _link(folder, "recipe.yaml", str(secret(folder)))


@case("a listed file is a link", "tokenizer.json", "link", kind="run")
def _(folder: Path) -> None:
    _link(folder / "model", "tokenizer.json", str(secret(folder)))


# --- recipes ------------------------------------------------------------------------------------------------------

PLAIN = "model: encoder\ndata: {train: train.csv}\n"


def _recipe(name: str, text: str | Callable[[Path], str], *names: str) -> None:
    @case(name, "recipe.yaml", *names, kind="recipe")
    def _(folder: Path) -> None:
        found = text(folder) if callable(text) else text
        (folder / "recipe.yaml").write_text(found, encoding="utf-8")


_LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
_recipe("a tag that runs", lambda f: PLAIN + f"seed: !!python/object/apply:os.system ['touch {ran(f)}']\n", ":3", "tag")
_recipe("a tag that makes an object", PLAIN + "seed: !!python/object/new:os.system ['id']\n", ":3", "tag")
_recipe("a tag that names a module", PLAIN + "seed: !!python/module:os\n", ":3", "tag")
_recipe("a billion laughs", _LAUGHS + PLAIN, ":2", "alias")
_recipe("an alias to itself", PLAIN + "task: &t {name: classify, options: *t}\n", ":3", "alias")
_recipe("a recipe nested deep", PLAIN + "trainer: " + "[" * 5000 + "]" * 5000 + "\n", ":3", "deep")
_recipe("a recipe without end", PLAIN + "trainer:\n" + "  - x\n" * 60_000, "values")
_recipe("a recipe of two megabytes", PLAIN + "# " + "x" * (2 << 20), "bytes")
_recipe("a recipe with a key twice", PLAIN + "model: other\n", ":3", "model")
_recipe("an unknown key", PLAIN + "run_this: rm\n", ":3", "run_this")
_recipe("a number of too many digits", PLAIN + "seed: " + "9" * 5000 + "\n", "recipe.yaml")
_recipe("a recipe of other bytes", PLAIN + "seed: \x00\n", "recipe.yaml")


@case("a recipe that is a pipe", "recipe.yaml", "pipe", kind="recipe")
def _(folder: Path) -> None:
    _pipe(folder, "recipe.yaml")


@case("a recipe with a hostile model", "config.json", "auto_map", kind="recipe")
def _(folder: Path) -> None:
    change(folder / "encoder", CONFIG, lambda old: old.update(_code(folder / "encoder", "AutoConfig", "evil.Config")))


@case("a recipe whose model is a file", "train.csv", "file", kind="recipe")
def _(folder: Path) -> None:
    (folder / "recipe.yaml").write_text(
        f"model: {folder / 'train.csv'}\ndata: {{train: train.csv}}\n", encoding="utf-8"
    )


# --- benign folders, and opening them -----------------------------------------------------------------------------


def recurrent_keys(name: str, where: str, values: Any, *also: str) -> None:
    """The same for a recurrent model."""
    keys(f"recurrent: {name}", CONFIG, where, values, *also, kind="recurrent")


recurrent_keys("code of its own", "auto_map", {"auto_map": {"AutoModel": "evil.Model"}})
recurrent_keys("a direction that is a path", "direction", {"direction": "../secret"})
recurrent_keys("a dropout that is no number", "weight_dropout", {"weight_dropout": "__import__('os')"})
recurrent_keys("a dropout above 1", "hidden_dropout", {"hidden_dropout": 7})
recurrent_keys("a dropout below 0", "input_dropout", {"input_dropout": -0.5})
recurrent_keys("a vocabulary of billions", "vocab_size", {"vocab_size": 1 << 40})
recurrent_keys("states larger than memory", "belong together", {"hidden_size": 1 << 16, "num_hidden_layers": 64})
recurrent_keys("a million layers", "num_hidden_layers", {"num_hidden_layers": 1_000_000})
recurrent_keys("no layers", "num_hidden_layers", {"num_hidden_layers": 0})
recurrent_keys("pieces of no tokens", "bptt", {"bptt": 0})
recurrent_keys("pieces of half a token", "bptt", {"bptt": 0.5})
recurrent_keys("gradients of no tokens", "max_gradient_tokens", {"max_gradient_tokens": -1})
recurrent_keys("a regularization that is a list", "activation_regularization", {"activation_regularization": [2]})
recurrent_keys("tied to a name", "tie_word_embeddings", {"tie_word_embeddings": "secret"})
recurrent_keys("quantized", "quantization_config", {"quantization_config": {"quant_method": "gptq"}})
recurrent_keys("labels without end", "num_labels", {"num_labels": 1 << 30})


@case("recurrent: weights as a pickle", "pytorch_model.bin", kind="recurrent")
def _(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload(str(ran(folder)))))


def save_benign(folder: Path) -> None:
    """Write what the cases change: a model, a run, a recipe with its model, each in a folder of its name."""
    from tiny import save_tiny, tiny_model, tiny_tokenizer
    from warmstart.pipeline.saved_model import save
    from warmstart.tasks.classify import TASK
    from warmstart.text.windows import Window

    save_tiny(folder / "model")
    save_tiny(folder / "recurrent", "awd-lstm")
    (folder / "model" / "README.md").write_text("A tiny model.", encoding="utf-8")
    task = TASK.from_answers(TASK.options_class(), ["bad", "good"], pair=False)
    labels = {key: value for key, value in task.config_kwargs().items() if "2" in key}
    model = tiny_model("bert", num_labels=2, **labels)
    save(model, tiny_tokenizer(), task, Window(64), folder / "run" / "model")
    (folder / "run" / "recipe.yaml").write_text(PLAIN, encoding="utf-8")
    (folder / "run" / "metrics.json").write_text("{}", encoding="utf-8")
    save_tiny(folder / "recipe" / "encoder")
    (folder / "recipe" / "recipe.yaml").write_text(PLAIN, encoding="utf-8")
    (folder / "recipe" / "train.csv").write_text("text,label\na good film,good\n", encoding="utf-8")
    save_data(folder / "data")


def save_data(folder: Path) -> None:
    """Write a data file of each kind that is unpacked."""
    import openpyxl
    import zstandard

    folder.mkdir()
    rows = b"text,label\na good film,good\na bad film,bad\n"
    (folder / "rows.csv.gz").write_bytes(gzip.compress(rows))
    (folder / "rows.csv.zst").write_bytes(zstandard.compress(rows))
    with zipfile.ZipFile(folder / "rows.csv.zip", "w") as archive:
        archive.writestr("rows.csv", rows)
    book = openpyxl.Workbook()
    for line in rows.decode().splitlines():
        book.active.append(line.split(","))
    book.save(folder / "rows.xlsx")


def read_rows(file: str) -> list[Any]:
    """Read a data file as every verb does."""
    from warmstart.data.findings import Findings
    from warmstart.data.read import iter_rows
    from warmstart.data.source import Source
    from warmstart.tasks.classify import TASK

    return list(iter_rows(Source((file,)), TASK.schema(TASK.options_class()), Findings()))


def open_it(kind: Kind, folder: Path) -> None:
    """Do with a folder all that warmstart does with one of its kind."""
    if kind == "data":
        for file in sorted(folder.glob("rows.*")):
            assert read_rows(str(file))
        return
    import warmstart
    from warmstart.evaluation.run import RunFolder
    from warmstart.models.loading import load_as_saved, load_config, load_model, load_tokenizer
    from warmstart.recipe import load_recipe

    if kind == "run":
        run = RunFolder(folder)
        assert run.recipe.model
        assert run.metrics == {}
        warmstart.load(folder).predict(["a good film", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"])
        return
    model = str(folder) if kind in {"model", "recurrent"} else load_recipe(folder / "recipe.yaml").model
    load_config(model)
    tokenizer = load_tokenizer(model)
    tokenizer("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab")
    load_model(model, "AutoModelForSequenceClassification", {"num_labels": 2}, tokenizer)
    load_as_saved(model)
